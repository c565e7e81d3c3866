#include "infini_train/src/autograd/graph_task.h"

#include <algorithm>
#include <atomic>
#include <optional>

#include "infini_train/include/autograd/accumulate.h"
#include "infini_train/include/autograd/anomaly_mode.h"
#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/autocast.h"
#include "infini_train/src/autograd/function_hooks.h"
#include "infini_train/src/autograd/hook_runner.h"
#include "infini_train/src/autograd/meta.h"
#include "infini_train/src/common/format.h"
#include "infini_train/src/tensor/finite.h"

namespace infini_train::autograd {
namespace {

thread_local GraphTask *current_task = nullptr;

// Makes a pass the thread's current one, with its grad mode.
class PassScope {
public:
    PassScope(GraphTask *task, bool create_graph)
        : task_(current_task),
          grad_mode_(GradMode::IsEnabled()),
          no_autocast_(autocast_is_on ? std::optional<AutocastStateScope>(std::in_place, AutocastState())
                                      : std::nullopt) {
        current_task = task;
        GradMode::SetEnabled(create_graph);
    }
    ~PassScope() {
        current_task = task_;
        GradMode::SetEnabled(grad_mode_);
    }
    PassScope(const PassScope &) = delete;
    PassScope &operator=(const PassScope &) = delete;

private:
    GraphTask *const task_;
    const bool grad_mode_;
    const std::optional<AutocastStateScope> no_autocast_;
};

bool IsNull(const TensorPtr &tensor) {
    return tensor == nullptr;
}
bool AllNull(const TensorList &tensors) {
    return std::all_of(tensors.begin(), tensors.end(), IsNull);
}
bool AnyNull(const TensorList &tensors) {
    return std::any_of(tensors.begin(), tensors.end(), IsNull);
}

// Accumulating frees nothing and holds nothing back, so it comes first.
uint64_t Priority(const Function &function) {
    return function.next_edges().empty() ? UINT64_MAX : function.sequence();
}

void CheckFinite(const Function &function, const TensorList &grad_inputs) {
    for (size_t i = 0; i < grad_inputs.size(); ++i) {
        if (const int kinds = FindNonFinite(grad_inputs[i].get())) {
            Throw<AutogradError>("{}: the gradient of its input {} of shape {} isn't finite ({}); it was applied {}",
                                 function.type(), i, FormatDims(grad_inputs[i]->Dims()), DescribeNonFinite(kinds),
                                 function.module_path().empty() ? "outside of any module, or before anomaly mode began"
                                                                : "in module " + function.module_path());
        }
    }
}

}  // namespace

std::unique_ptr<GraphTask::Workspace> &GraphTask::SpareWorkspace() {
    static thread_local auto spare = std::make_unique<Workspace>();
    return spare;
}

GraphTask::GraphTask(Options options)
    : options_(options),
      last_hook_id_(infini_train::internal::LatestHookId()),
      workspace_(SpareWorkspace() != nullptr ? std::move(SpareWorkspace()) : std::make_unique<Workspace>()),
      index_(workspace_->index),
      nodes_(workspace_->nodes),
      edge_targets_(workspace_->edge_targets),
      due_(workspace_->due),
      notes_(workspace_->notes) {}

GraphTask::~GraphTask() {
    constexpr size_t kLarge = 1 << 14;  // more is given back, and would take long to clear
    nodes_.clear();
    if (index_.capacity() <= kLarge && SpareWorkspace() == nullptr) {
        index_.Clear();
        edge_targets_.clear();
        due_.clear();
        notes_.clear();
        SpareWorkspace() = std::move(workspace_);
    }
}

GraphTask *GraphTask::Current() {
    return current_task;
}

uint64_t GraphTask::NewKey() {
    static std::atomic<uint64_t> latest{0};
    return ++latest;
}

bool GraphTask::Runs(const Function &function) const {
    const uint32_t node = index_.Find(&function);
    return node != kNone && nodes_[node].executes;
}

bool GraphTask::Reaches(const Function &function) const {
    const uint32_t node = index_.Find(&function);
    return node != kNone && IsWanted(node);
}

bool GraphTask::Awaits(const Function &function) const {
    // A node's gradients are taken when it runs.
    return Reaches(function) && !nodes_[index_.Find(&function)].gradients.empty();
}

void GraphTask::Leave(std::shared_ptr<NoteOwner> owner, TensorList gradients) {
    notes_.push_back({std::move(owner), std::move(gradients)});
}

std::optional<TensorList> GraphTask::Take(const NoteOwner *owner) {
    // Nested modules leave and take in the order of a stack.
    const auto found =
        std::find_if(notes_.rbegin(), notes_.rend(), [&](const Note &note) { return note.owner.get() == owner; });
    if (found == notes_.rend()) {
        return std::nullopt;
    }
    std::optional<TensorList> gradients = std::move(found->gradients);
    notes_.erase(std::next(found).base());
    return gradients;
}

void GraphTask::RunBackward(const std::vector<Edge> &roots, TensorList gradients) {
    Discover(roots);
    CountDependencies(roots);
    Run(roots, std::move(gradients));
}

TensorList GraphTask::RunGrad(const std::vector<Edge> &roots, TensorList gradients, const std::vector<Edge> &targets) {
    results_.resize(targets.size());
    Discover(roots);
    MarkPathsTo(roots, targets);
    CountDependencies(roots);
    Run(roots, std::move(gradients));
    return std::move(results_);
}

void GraphTask::Run(const std::vector<Edge> &roots, TensorList gradients) {
    const PassScope scope(this, options_.create_graph);
    for (size_t i = 0; i < roots.size(); ++i) {
        Accumulate(index_.Find(roots[i].function.get()), std::exchange(gradients[i], nullptr), roots[i].output_idx);
    }
    try {
        while (!due_.empty()) {
            std::pop_heap(due_.begin(), due_.end());
            const Due due = due_.back();
            due_.pop_back();
            RunNode(nodes_[due.node]);
        }
        JoinStreams();
    } catch (...) {
        // Those that were begun last end first.
        while (!notes_.empty()) {
            const Note note = std::move(notes_.back());
            notes_.pop_back();
            note.owner->PassFailed(note.gradients, std::current_exception());
        }
        throw;
    }
}

bool GraphTask::Deliver(Function &function, const TensorPtr &gradient, int idx) {
    GraphTask *task = current_task;
    if (task == nullptr || task->receiver_ == kNone || task->nodes_[task->receiver_].function.get() != &function) {
        return false;
    }
    task->Accumulate(std::exchange(task->receiver_, kNone), gradient, idx);
    return true;
}

namespace {

// Makes `stream` wait for what the current stream of the tensor's device has to do, if it is another one, and keeps the
// tensor's memory until `stream` is done with it, too.
void UseOn(const Stream &stream, const Tensor &tensor) {
    const Device device = tensor.GetDevice();
    if (device.IsCPU()) {
        return;
    }
    const Stream current = CurrentStream(device);
    if (current != stream) {
        stream.WaitFor(current);
        tensor.RecordUse(stream);
    }
}

// Whether a gradient may be added to it in place.
bool IsOwnSum(const TensorPtr &sum) {
    return !GradMode::IsEnabled() && sum.use_count() == 1 && sum->storage().use_count() == 1 && sum->IsContiguous();
}

}  // namespace

bool GraphTask::IsUnobserved(const Function &function) {
    const Function::Hooks *own = FunctionAccess::FindHooks(function);
    return current_task != nullptr && !GradMode::IsEnabled() && !AnomalyModeGuard::IsEnabled() &&
           !HaveGlobalBackwardHooks() && (own == nullptr || !own->HasBackward());
}

bool GraphTask::MayOverwrite(const Function &function, const TensorPtr &saved) {
    // The holders are the function's ctx_ and the list that it got from there.
    return IsUnobserved(function) && !current_task->options_.retain_graph && saved.use_count() == 2 &&
           saved->storage().use_count() == 1;
}

TensorPtr GraphTask::TakeSum(const Function &function, size_t input) {
    const Edge &edge = function.next_edges_[input];
    if (edge.function == nullptr || !IsUnobserved(function)) {
        return nullptr;
    }
    const uint32_t target = current_task->index_.Find(edge.function.get());
    if (target == kNone || !current_task->IsWanted(target) || current_task->nodes_[target].stream != function.stream_) {
        return nullptr;
    }
    TensorPtr &sum = current_task->nodes_[target].gradients[static_cast<size_t>(edge.output_idx)];
    return sum != nullptr && IsOwnSum(sum) ? std::exchange(sum, nullptr) : nullptr;
}

void GraphTask::AddTo(TensorPtr *sum, const TensorPtr &gradient) {
    if (*sum == nullptr) {
        *sum = gradient;
    } else if (IsOwnSum(*sum)) {
        (*sum)->Add_(gradient);
    } else {
        *sum = (*sum)->Add(gradient);
    }
}

void GraphTask::JoinStreams() const {
    for (const Stream &stream : side_streams_) {
        CurrentStream(stream.device()).WaitFor(stream);
    }
    for (const TensorPtr &result : results_) {
        if (!side_streams_.empty() && result != nullptr) {
            result->RecordUse(CurrentStream(result->GetDevice()));
        }
    }
}

void GraphTask::Accumulate(uint32_t index, const TensorPtr &gradient, int idx) {
    Node &node = nodes_[index];
    if (gradient != nullptr) {
        const auto &info = node.function->output_info(static_cast<size_t>(idx));
        CheckGradient(*gradient, info.layout->dims, info.dtype, info.device, "a gradient",
                      [&] { return node.function->type(); });
        TensorPtr &sum = node.gradients[static_cast<size_t>(idx)];
        if (node.stream.device().IsCPU()) {
            AddTo(&sum, gradient);
        } else {
            UseOn(node.stream, *gradient);
            const StreamGuard on(node.stream);
            AddTo(&sum, gradient);
        }
    }
    if (--node.dependencies == 0) {
        due_.push_back({Priority(*node.function), due_count_++, index});
        std::push_heap(due_.begin(), due_.end());
    }
}

void GraphTask::RunNode(Node &node) {
    if (!node.executes && node.captures.empty()) {
        return;  // a root that leads to no target: what else its gradient is made of isn't computed
    }
    const StreamGuard on(node.stream);
    Function &function = *node.function;
    TensorList gradients = std::move(node.gradients);
    RunTensorHooks(function, gradients);
    for (const auto &[output_idx, slot] : node.captures) {
        results_[slot] = gradients[static_cast<size_t>(output_idx)];
    }
    if (!node.executes) {
        return;
    }
    TensorList grad_inputs = RunFunction(function, gradients);
    const bool handed_on = gradients.capacity() == 0;
    gradients.clear();
    for (const SavedTensor &saved : function.ctx_.saved_) {
        saved.Release();
    }
    if (!options_.retain_graph) {
        const bool had_saved = !function.ctx_.saved_.empty();
        function.ctx_.saved_.clear();
        // Written only where it changes: an accumulator is shared by the graphs of several threads.
        if (function.OnGraphFreed() || had_saved) {
            function.ctx_.freed_ = true;
        }
    }
    SendOn(node, grad_inputs);
    grad_inputs.clear();
    workspace_->lists.push_back(std::move(handed_on ? grad_inputs : gradients));
}

void GraphTask::RunHooksOf(const HookList<TensorHook> &hooks, const Function &function, int idx,
                           TensorPtr &gradient) const {
    hooks.ForEach(last_hook_id_, [&](const TensorHook &hook, const infini_train::internal::HookState &state) {
        gradient = OwnForHook(gradient);  // for each: the one before may have kept it
        const auto describe = [&] {
            return fmt::format("gradient hook{} on output {} of {}", QuotedName(state), idx, function.type());
        };
        TensorPtr replacement = WithContext(describe, [&] { return hook(gradient); });
        if (replacement != nullptr) {
            const auto &info = function.output_info(static_cast<size_t>(idx));
            CheckGradient(*replacement, info.layout->dims, info.dtype, info.device, "a gradient", describe);
            gradient = std::move(replacement);
        }
    });
}

void GraphTask::RunTensorHooks(Function &function, TensorList &gradients) const {
    if (function.is_accumulator_) {
        const auto *accumulator = static_cast<const AccumulateGrad *>(&function);
        RunHooksOf(GetMeta(*accumulator->leaf())->leaf_hooks->tensor, function, 0, gradients[0]);
        return;
    }
    Function::Hooks *hooks = FunctionAccess::FindHooks(function);
    if (hooks == nullptr) {
        return;
    }
    for (size_t i = 0; i < gradients.size(); ++i) {
        auto *output = hooks->FindOutput(i);
        if (output == nullptr) {
            continue;
        }
        RunHooksOf(output->tensor, function, static_cast<int>(i), gradients[i]);
        const TensorPtr keeper = output->retains_grad.lock();
        if (keeper != nullptr && gradients[i] != nullptr) {
            const TensorPtr shared = gradients[i];  // a second hold, so that the keeper gets a copy
            AccumulateInto(&MutableMeta(*keeper).grad, shared);
        }
    }
}

TensorList GraphTask::RunFunction(Function &function, TensorList &gradients) const {
    const Function::Hooks *own = FunctionAccess::FindHooks(function);
    const bool hooked = HaveGlobalBackwardHooks() || HaveGlobalForwardHooks() || (own != nullptr && own->HasBackward());
    return hooked ? RunHookedFunction(function, own, gradients) : RunBackwardOf(function, std::move(gradients));
}

TensorList GraphTask::RunHookedFunction(Function &function, const FunctionHooks *own, TensorList &gradients) const {
    const HookLayers<FunctionHooks> layers(FindGlobalFunctionHooks(), own);
    const HookRunner runner(
        "backward", [&] { return function.type(); }, last_hook_id_);
    std::exception_ptr failure;
    TensorList grad_inputs = CatchInto(&failure, [&] {
        for (const FunctionHooks *hooks : layers) {
            if (!hooks->backward_pre.empty()) {
                OwnForHooks(&gradients);
                runner.RunPre(hooks->backward_pre, gradients, /*gradients=*/true, &function);
            }
        }
        for (size_t i = 0; i < gradients.size(); ++i) {
            if (gradients[i] != nullptr) {
                const auto &info = function.output_info(i);
                CheckGradient(*gradients[i], info.layout->dims, info.dtype, info.device, "a gradient",
                              [&] { return function.type(); });
            }
        }
        const FunctionScope scope(/*inside=*/true);
        return RunBackwardOf(function, TensorList(gradients));
    });
    if (failure != nullptr) {
        grad_inputs.assign(function.next_edges_.size(), nullptr);
    }
    for (const FunctionHooks *hooks : layers) {
        if (!hooks->backward_post.empty()) {
            OwnForHooks(&grad_inputs);
            runner.RunPost(hooks->backward_post, grad_inputs, /*gradients=*/true, &failure, &function, grad_inputs,
                           gradients);
        }
    }
    if (failure != nullptr) {
        std::rethrow_exception(failure);
    }
    return grad_inputs;
}

TensorList GraphTask::RunBackwardOf(Function &function, TensorList &&gradients) {
    // Nothing comes of nothing, except for a function that takes missing gradients as they are.
    if (function.ctx_.materialize_grads_ && AllNull(gradients)) {
        return TensorList(function.next_edges_.size());
    }
    TensorList with_zeros;
    if (function.ctx_.materialize_grads_ && AnyNull(gradients)) {
        for (size_t i = 0; i < gradients.size(); ++i) {
            const auto &info = function.output_info(i);
            with_zeros.push_back(gradients[i] != nullptr ? gradients[i]
                                                         : Tensor::Zeros(info.layout->dims, info.dtype, info.device));
        }
    }
    TensorList grad_inputs =
        WithContext([&] { return "in the backward of " + function.type(); },
                    [&] { return function.TakeBackward(std::move(with_zeros.empty() ? gradients : with_zeros)); });
    if (grad_inputs.size() != function.next_edges_.size()) {
        Throw<AutogradError>("{}: Backward gave {} gradients for {} inputs", function.type(), grad_inputs.size(),
                             function.next_edges_.size());
    }
    if (AnomalyModeGuard::IsEnabled()) {
        CheckFinite(function, grad_inputs);
    }
    return grad_inputs;
}

void GraphTask::SendOn(const Node &node, const TensorList &grad_inputs) {
    const auto targets = Targets(node);
    for (size_t i = 0; i < targets.size(); ++i) {
        if (targets[i] != kNone && IsWanted(targets[i])) {
            const Edge &edge = node.function->next_edges_[i];
            receiver_ = targets[i];
            edge.function->BackwardPartial(grad_inputs[i], edge.output_idx);
        }
    }
}

}  // namespace infini_train::autograd
