#include <algorithm>

#include "infini_train/include/autograd/anomaly_mode.h"
#include "infini_train/include/autograd/grad.h"
#include "infini_train/include/autograd/tensor_hook.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/function_hooks.h"
#include "infini_train/src/autograd/graph_task.h"
#include "infini_train/src/autograd/meta.h"
#include "infini_train/src/common/format.h"

namespace infini_train {

using autograd::AutogradMeta;
using autograd::FunctionAccess;
using autograd::GetMeta;
using autograd::MutableMeta;

void Tensor::set_requires_grad(bool requires_grad) {
    if (requires_grad == this->requires_grad()) {
        return;
    }
    if (requires_grad && !IsFloatingPoint(dtype_)) {
        Throw<DtypeError>("Tensor::set_requires_grad: expected a floating-point tensor, got {}",
                          infini_train::ToString(dtype_));
    }
    if (!is_leaf()) {
        Throw<AutogradError>(
            "Tensor::set_requires_grad: only a leaf can stop requiring a gradient, this is an output of "
            "{}; use Detach",
            grad_fn()->type());
    }
    AutogradMeta &meta = MutableMeta(*this);
    meta.requires_grad = requires_grad;
    if (requires_grad && meta.leaf_hooks == nullptr) {
        meta.leaf_hooks = std::make_unique<AutogradMeta::LeafHooks>();
    }
}

TensorPtr Tensor::RequiresGrad() {
    set_requires_grad(true);
    return Self();
}

TensorPtr Tensor::grad() const {
    const AutogradMeta *meta = GetMeta(*this);
    return meta != nullptr ? meta->grad : nullptr;
}

void Tensor::set_grad(const TensorPtr &grad) {
    if (grad != nullptr) {
        autograd::CheckGradient(*grad, Dims(), dtype_, GetDevice(), "a gradient", [] { return "Tensor::set_grad"; });
        MutableMeta(*this).grad = grad;
    } else if (AutogradMeta *meta = GetMeta(*this)) {
        meta->grad = nullptr;
    }
}

void Tensor::SetData(const TensorPtr &other) {
    if (other == nullptr || !is_leaf() || !other->is_leaf()) {
        throw AutogradError("Tensor::SetData: expected two leaves");
    }
    if (requires_grad() && !IsFloatingPoint(other->dtype_)) {
        Throw<DtypeError>("Tensor::SetData: a tensor that requires a gradient must hold floating-point values, got {}",
                          infini_train::ToString(other->dtype_));
    }
    const bool alike = other->Dims() == Dims() && other->dtype_ == dtype_ && other->GetDevice() == GetDevice();
    if (AutogradMeta *meta = GetMeta(*this); meta != nullptr && !alike) {
        // Graphs that are recorded from here on need an accumulator that knows the new shape.
        std::lock_guard lock(meta->mutex);
        meta->accumulator.reset();
        if (meta->grad != nullptr) {
            meta->grad =
                other->Dims() == Dims() ? meta->grad->Detach()->To(other->GetDevice())->To(other->dtype_) : nullptr;
        }
    }
    storage_ = other->storage_;
    layout_ = other->layout_;
    offset_ = other->offset_;
    dtype_ = other->dtype_;
}

void Tensor::ZeroGrad(bool set_to_none) {
    const TensorPtr current = grad();
    if (current == nullptr) {
        return;
    }
    if (set_to_none) {
        set_grad(nullptr);
    } else if (current->requires_grad()) {
        set_grad(ZerosLike(current));
    } else {
        current->Zero_();
    }
}

std::shared_ptr<autograd::Function> Tensor::grad_fn() const {
    const AutogradMeta *meta = GetMeta(*this);
    return meta != nullptr ? meta->edge.function : nullptr;
}

int Tensor::output_idx() const {
    const AutogradMeta *meta = GetMeta(*this);
    return meta != nullptr ? meta->edge.output_idx : 0;
}

TensorPtr Tensor::Detach() const {
    return autograd::Alias(*this);
}

void Tensor::Backward(const TensorPtr &gradient, bool retain_graph, bool create_graph) {
    autograd::Backward({Self()}, {gradient}, retain_graph || create_graph, create_graph);
}

std::shared_ptr<HookHandle> Tensor::AddHook(TensorHook hook, const HookOptions &options) {
    if (!requires_grad()) {
        throw AutogradError("Tensor::RegisterHook: the tensor requires no gradient");
    }
    AutogradMeta &meta = *GetMeta(*this);
    if (meta.edge.function == nullptr) {
        return meta.leaf_hooks->tensor.Add(std::move(hook), options);
    }
    auto &hooks = FunctionAccess::MutableHooks(*meta.edge.function);
    return hooks.MutableOutput(static_cast<size_t>(meta.edge.output_idx)).tensor.Add(std::move(hook), options);
}

std::shared_ptr<HookHandle> Tensor::RegisterPostAccumulateGradHook(PostAccumulateHook hook,
                                                                   const HookOptions &options) {
    if (hook == nullptr) {
        throw ValueError("Tensor::RegisterPostAccumulateGradHook: expected a callable, got an empty function");
    }
    if (!requires_grad() || !is_leaf()) {
        throw AutogradError(
            "Tensor::RegisterPostAccumulateGradHook: only a leaf that requires a gradient accumulates one");
    }
    return GetMeta(*this)->leaf_hooks->post_accumulate.Add(std::move(hook), options);
}

std::shared_ptr<HookHandle> Tensor::RegisterPostAccumulateGradHook(
    std::shared_ptr<autograd::PostAccumulateGradHook> hook) {
    if (hook == nullptr) {
        throw ValueError("Tensor::RegisterPostAccumulateGradHook: expected a hook, got null");
    }
    return RegisterPostAccumulateGradHook([hook = std::move(hook)](const TensorPtr &leaf) { (*hook)(leaf); });
}

void Tensor::RetainGrad() {
    if (!requires_grad()) {
        throw AutogradError("Tensor::RetainGrad: the tensor requires no gradient");
    }
    AutogradMeta &meta = *GetMeta(*this);
    if (meta.edge.function == nullptr || meta.retains_grad) {
        return;
    }
    meta.retains_grad = true;
    auto &hooks = FunctionAccess::MutableHooks(*meta.edge.function);
    hooks.MutableOutput(static_cast<size_t>(meta.edge.output_idx)).retains_grad = weak_from_this();
}

bool Tensor::retains_grad() const {
    const AutogradMeta *meta = GetMeta(*this);
    return meta != nullptr && meta->retains_grad;
}

namespace autograd {
namespace {

std::vector<Edge> RootEdges(const TensorList &outputs, const char *name) {
    std::vector<Edge> edges;
    for (size_t i = 0; i < outputs.size(); ++i) {
        if (outputs[i] == nullptr) {
            Throw<ValueError>("{}: tensor {} is null", name, i);
        }
        if (!outputs[i]->requires_grad()) {
            Throw<AutogradError>("{}: tensor {} of shape {} requires no gradient and isn't part of a graph", name, i,
                                 FormatDims(outputs[i]->Dims()));
        }
        edges.push_back(GradientEdge(outputs[i]));
    }
    return edges;
}

TensorList RootGradients(const TensorList &outputs, const TensorList &given, const char *name) {
    if (!given.empty() && given.size() != outputs.size()) {
        Throw<ValueError>("{}: {} gradients for {} tensors", name, given.size(), outputs.size());
    }
    TensorList gradients(outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
        const Tensor &output = *outputs[i];
        if (i < given.size() && given[i] != nullptr) {
            CheckGradient(*given[i], output.Dims(), output.Dtype(), output.GetDevice(), "a gradient",
                          [&] { return name; });
            gradients[i] = given[i];
        } else if (output.NumElements() == 1) {
            gradients[i] = Tensor::Ones(output.Dims(), output.Dtype(), output.GetDevice());
        } else {
            Throw<AutogradError>(
                "{}: a tensor of shape {} needs a gradient to begin with; only one element can do "
                "without",
                name, FormatDims(output.Dims()));
        }
    }
    return gradients;
}

}  // namespace

void Backward(const TensorList &tensors, const TensorList &gradients, std::optional<bool> retain_graph,
              bool create_graph) {
    constexpr const char *kName = "Tensor::Backward";
    const std::vector<Edge> roots = RootEdges(tensors, kName);
    GraphTask task({.retain_graph = retain_graph.value_or(create_graph), .create_graph = create_graph});
    task.RunBackward(roots, RootGradients(tensors, gradients, kName));
}

TensorList Grad(const TensorList &outputs, const TensorList &inputs, const TensorList &grad_outputs,
                std::optional<bool> retain_graph, bool create_graph, bool allow_unused) {
    constexpr const char *kName = "Grad";
    const std::vector<Edge> roots = RootEdges(outputs, kName);
    std::vector<Edge> targets;
    for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i] == nullptr || !inputs[i]->requires_grad()) {
            Throw<AutogradError>("{}: input {} {}", kName, i,
                                 inputs[i] == nullptr ? "is null" : "requires no gradient");
        }
        targets.push_back(GradientEdge(inputs[i]));
    }
    GraphTask task({.retain_graph = retain_graph.value_or(create_graph), .create_graph = create_graph});
    TensorList results = task.RunGrad(roots, RootGradients(outputs, grad_outputs, kName), targets);
    const auto unused = std::find(results.begin(), results.end(), nullptr);
    if (unused != results.end() && !allow_unused) {
        Throw<AutogradError>("{}: the outputs don't depend on input {}; pass allow_unused = true to get null for it",
                             kName, unused - results.begin());
    }
    return results;
}

namespace {
thread_local bool anomaly_mode = false;
std::atomic<std::string (*)()> module_path_provider{nullptr};
}  // namespace

bool AnomalyModeGuard::IsEnabled() {
    return anomaly_mode;
}
void AnomalyModeGuard::SetEnabled(bool enabled) {
    anomaly_mode = enabled;
}

namespace internal {

void SetModulePathProvider(std::string (*provider)()) {
    module_path_provider.store(provider);
}

std::string CurrentModulePath() {
    const auto provider = module_path_provider.load();
    return provider != nullptr ? provider() : std::string();
}

}  // namespace internal
}  // namespace autograd
}  // namespace infini_train
