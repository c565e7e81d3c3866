#include "infini_train/include/autograd/function.h"

#include <algorithm>
#include <array>
#include <exception>

#include "infini_train/include/autograd/anomaly_mode.h"
#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/autocast.h"
#include "infini_train/src/autograd/function_hooks.h"
#include "infini_train/src/autograd/graph_task.h"
#include "infini_train/src/autograd/hook_runner.h"
#include "infini_train/src/autograd/meta.h"
#include "infini_train/src/common/format.h"

namespace infini_train::autograd {
namespace {

uint64_t NextSequence() {
    static thread_local uint64_t sequence = 0;
    return ++sequence;
}

bool AnyRequiresGrad(const TensorList &tensors) {
    return std::any_of(tensors.begin(), tensors.end(),
                       [](const TensorPtr &tensor) { return tensor != nullptr && tensor->requires_grad(); });
}

// The first that isn't the CPU, if there is one.
Device DeviceOf(const TensorList &inputs, const TensorList &outputs) {
    for (const TensorList *tensors : {&outputs, &inputs}) {
        for (const auto &tensor : *tensors) {
            if (tensor != nullptr && !tensor->GetDevice().IsCPU()) {
                return tensor->GetDevice();
            }
        }
    }
    return {};
}

// Destroying a node may free the last hold on the nodes before it, and so on: a loop, so that deep graphs don't
// overflow the stack.
void DestroyLater(infini_train::internal::ShortList<Edge> &&edges, std::vector<SavedTensor> &&saved) {
    struct Remains {
        infini_train::internal::ShortList<Edge> edges;
        std::vector<SavedTensor> saved;
    };
    static thread_local std::vector<Remains> *pending = nullptr;
    if (edges.empty() && saved.empty()) {
        return;
    }
    if (pending != nullptr) {
        pending->push_back({std::move(edges), std::move(saved)});
        return;
    }
    std::vector<Remains> queue;
    queue.push_back({std::move(edges), std::move(saved)});
    pending = &queue;
    while (!queue.empty()) {
        const Remains next = std::move(queue.back());
        queue.pop_back();
    }
    pending = nullptr;
}

}  // namespace

FunctionHooks &GlobalFunctionHooks(FunctionDepth depth) {
    GlobalHooks *hooks = global_function_hooks.load(std::memory_order_acquire);
    if (hooks == nullptr) {
        auto fresh = std::make_unique<GlobalHooks>();
        if (global_function_hooks.compare_exchange_strong(hooks, fresh.get())) {
            hooks = fresh.release();
        }
    }
    return (*hooks)[static_cast<size_t>(depth)];
}

Function::Function(std::string type) : type_(std::move(type)) {
    ctx_.owner_ = this;
}

Function::~Function() {
    delete hooks_.load();
    DestroyLater(std::move(next_edges_), std::move(ctx_.saved_));
}

Function::Hooks &Function::MutableHooks() {
    Hooks *hooks = hooks_.load(std::memory_order_acquire);
    if (hooks == nullptr) {
        auto fresh = std::make_unique<Hooks>();
        if (hooks_.compare_exchange_strong(hooks, fresh.get())) {
            hooks = fresh.release();
        }
    }
    return *hooks;
}

std::shared_ptr<HookHandle> Function::AddHook(HookPoint point, FunctionPreHookFn hook, const HookOptions &options) {
    Hooks &hooks = MutableHooks();
    return (point == kForwardPre ? hooks.forward_pre : hooks.backward_pre).Add(std::move(hook), options);
}

std::shared_ptr<HookHandle> Function::AddHook(HookPoint point, FunctionPostHookFn hook, const HookOptions &options) {
    Hooks &hooks = MutableHooks();
    return (point == kForwardPost ? hooks.forward_post : hooks.backward_post).Add(std::move(hook), options);
}

TensorList Function::Apply(const TensorList &inputs) {
    if (autocast_is_on) [[unlikely]] {
        if (const auto cast = AutocastInputs(type_, inputs)) {
            return Run(*cast);
        }
    }
    return Run(inputs);
}

TensorList Function::Run(const TensorList &inputs) {
    const bool hooked = hooks_.load(std::memory_order_acquire) != nullptr || HaveGlobalForwardHooks();
    return hooked ? ApplyHooked(inputs) : RunForward(inputs);
}

TensorList Function::ApplyHooked(const TensorList &inputs) {
    const HookLayers<FunctionHooks> layers(FindGlobalFunctionHooks(FunctionDepth::kAll),
                                           FunctionScope::IsInside() ? nullptr : FindGlobalFunctionHooks(),
                                           hooks_.load(std::memory_order_acquire));
    const HookRunner runner(
        "forward", [this] { return type_; }, infini_train::internal::LatestHookId());
    TensorList current = inputs;
    std::exception_ptr failure;
    TensorList outputs = CatchInto(&failure, [&] {
        for (const FunctionHooks *hooks : layers) {
            runner.RunPre(hooks->forward_pre, current, /*gradients=*/false, this);
        }
        const FunctionScope scope(/*inside=*/true);
        return RunForward(current);
    });
    for (const FunctionHooks *hooks : layers) {
        runner.RunPost(hooks->forward_post, outputs, /*gradients=*/false, &failure, this, current, outputs);
    }
    if (failure != nullptr) {
        std::rethrow_exception(failure);
    }
    return outputs;
}

TensorList Function::RunForward(const TensorList &inputs) {
    if (!GradMode::IsEnabled()) {
        return Forward(inputs);
    }
    TensorList outputs;
    {
        NoGradGuard no_grad;
        outputs = Forward(inputs);
    }
    Record(inputs, &outputs);
    return outputs;
}

void Function::Record(const TensorList &inputs, TensorList *outputs) {
    const bool requires_grad = AnyRequiresGrad(inputs);
    ctx_.packs_ = requires_grad;
    ctx_.freed_ = false;
    ctx_.saved_.clear();
    ctx_.non_differentiable_.clear();
    ctx_.unneeded_input_grads_ = 0;
    if (requires_grad) {
        for (size_t i = 0; i < std::min<size_t>(inputs.size(), 64); ++i) {
            const bool needed = inputs[i] != nullptr && inputs[i]->requires_grad();
            ctx_.unneeded_input_grads_ |= static_cast<uint64_t>(!needed) << i;
        }
        for (auto &output : *outputs) {
            // An output that already has a place in the graph, as an input passed through, gets an object of its own.
            const bool passed_through = std::find(inputs.begin(), inputs.end(), output) != inputs.end();
            if (output != nullptr && (passed_through || output->requires_grad())) {
                output = Alias(*output);
            }
        }
    }
    {
        NoGradGuard no_grad;
        ctx_.outputs_ = outputs;
        SetupContext(inputs, *outputs);
        ctx_.outputs_ = nullptr;
    }
    if (requires_grad) {
        Connect(inputs, *outputs);
    }
}

void Function::Connect(const TensorList &inputs, const TensorList &outputs) {
    auto self = weak_from_this().lock();
    if (self == nullptr) {
        Throw<ValueError>("{}: a function must be owned by a shared pointer; make it with std::make_shared", type_);
    }
    ++application_;
    sequence_ = NextSequence();
    const Device device = DeviceOf(inputs, outputs);
    stream_ = device.IsCPU() ? Stream() : CurrentStream(device);
    if (application_ > 1) {
        if (Hooks *hooks = hooks_.load()) {
            std::lock_guard lock(hooks->mutex);
            hooks->outputs.clear();  // they belonged to the tensors of the application before
        }
    }
    next_edges_.clear();
    next_edges_.reserve(inputs.size());
    for (const auto &input : inputs) {
        next_edges_.push_back(input != nullptr && input->requires_grad() ? GradientEdge(input) : Edge{});
    }
    outputs_.clear();
    outputs_.reserve(outputs.size());
    if (AnomalyModeGuard::IsEnabled() || HaveGlobalForwardHooks() || HaveGlobalBackwardHooks()) {
        module_path_ = internal::CurrentModulePath();
    }
    const auto &excluded = ctx_.non_differentiable_;
    for (size_t i = 0; i < outputs.size(); ++i) {
        const TensorPtr &output = outputs[i];
        if (output == nullptr) {
            outputs_.push_back(
                {std::make_shared<const infini_train::internal::TensorLayout>(), DataType::kFLOAT32, Device()});
            continue;
        }
        outputs_.push_back({output->layout(), output->Dtype(), output->GetDevice()});
        if (!IsFloatingPoint(output->Dtype()) ||
            std::find(excluded.begin(), excluded.end(), output.get()) != excluded.end()) {
            continue;
        }
        auto meta = std::make_unique<AutogradMeta>();
        meta->requires_grad = true;
        const bool last = i + 1 == outputs.size();
        meta->edge = {last ? std::move(self) : self, static_cast<int>(i), application_};
        meta->is_view = std::any_of(inputs.begin(), inputs.end(), [&](const TensorPtr &input) {
            return input != nullptr && input->storage() == output->storage();
        });
        meta->view_version = output->Version();
        output->set_autograd_meta(std::move(meta));
    }
}

void Function::BackwardPartial(const TensorPtr &grad_output, int idx) {
    if (GraphTask::Deliver(*this, grad_output, idx)) {
        return;
    }
    if (idx < 0 || static_cast<size_t>(idx) >= outputs_.size()) {
        Throw<AutogradError>("{}: output {} of {} has no place in a graph", type_, idx, outputs_.size());
    }
    GraphTask task({});
    task.RunBackward({{shared_from_this(), idx, application_}}, {grad_output});
}

std::vector<std::pair<std::shared_ptr<Function>, int>> NextFunctions(const Function &function) {
    std::vector<std::pair<std::shared_ptr<Function>, int>> result;
    for (const Edge &edge : function.next_edges()) {
        if (edge.function != nullptr) {
            result.emplace_back(edge.function, edge.output_idx);
        }
    }
    return result;
}

void FunctionCtx::SaveForBackward(const TensorList &tensors) {
    saved_.clear();
    saved_.reserve(tensors.size());
    for (const auto &tensor : tensors) {
        int output_idx = -1;
        if (outputs_ != nullptr && tensor != nullptr) {
            const auto found = std::find(outputs_->begin(), outputs_->end(), tensor);
            output_idx = found == outputs_->end() ? -1 : static_cast<int>(found - outputs_->begin());
        }
        saved_.emplace_back(tensor, output_idx, *owner_, packs_);
    }
}

TensorList FunctionCtx::GetSavedTensors() const {
    if (freed_) {
        Throw<AutogradError>(
            "{}: what it saved was freed by an earlier backward pass; pass retain_graph = true to that one",
            owner_->type());
    }
    TensorList tensors;
    tensors.reserve(saved_.size());
    for (const auto &saved : saved_) {
        tensors.push_back(saved.Unpack(*owner_));
    }
    return tensors;
}

void FunctionCtx::MarkNonDifferentiable(const TensorList &outputs) {
    for (const auto &output : outputs) {
        non_differentiable_.push_back(output.get());
    }
}

}  // namespace infini_train::autograd
