#include "infini_train/include/autograd/saved_tensor.h"

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/function_hooks.h"
#include "infini_train/src/autograd/meta.h"
#include "infini_train/src/common/format.h"

namespace infini_train::autograd {
namespace {

thread_local std::shared_ptr<const SavedTensorHooks> current_hooks;

// The tensor object of a saved value with its place in the graph, for a recorded backward pass.
TensorPtr AttachedAlias(const Tensor &tensor, Edge edge) {
    auto alias = Alias(tensor);
    auto meta = std::make_unique<AutogradMeta>();
    meta->requires_grad = true;
    meta->edge = std::move(edge);
    alias->set_autograd_meta(std::move(meta));
    return alias;
}

}  // namespace

SavedTensorHooksGuard::SavedTensorHooksGuard(std::function<std::any(const TensorPtr &)> pack,
                                             std::function<TensorPtr(const std::any &)> unpack)
    : previous_(current_hooks) {
    if (pack == nullptr || unpack == nullptr) {
        throw ValueError("SavedTensorHooksGuard: expected two callables, got an empty function");
    }
    current_hooks = std::make_shared<const SavedTensorHooks>(SavedTensorHooks{std::move(pack), std::move(unpack)});
}

SavedTensorHooksGuard::~SavedTensorHooksGuard() {
    current_hooks = previous_;
}

SavedTensor::SavedTensor(const TensorPtr &tensor, int output_idx) : output_idx_(output_idx) {
    if (tensor == nullptr) {
        return;
    }
    version_ = tensor->Version();
    is_output_ = output_idx >= 0;
    requires_grad_ = is_output_ || tensor->requires_grad();
    hooks_ = current_hooks;
    if (hooks_ == nullptr) {
        // An output would hold this function, which holds it. A recorded tensor may become part of what is computed
        // from it by a later change in place. Either would be a cycle, so what is kept has the place of now.
        if (is_output_) {
            tensor_ = Alias(*tensor);
        } else {
            const Edge edge = requires_grad_ ? GetMeta(*tensor)->edge : Edge{};
            tensor_ = edge.function == nullptr ? tensor : AttachedAlias(*tensor, edge);
        }
        return;
    }
    if (!is_output_ && tensor->requires_grad()) {
        Edge edge = GradientEdge(tensor);
        packed_function_ = std::move(edge.function);
        packed_application_ = edge.application;
        output_idx_ = edge.output_idx;
    }
    packed_dims_ = tensor->Dims();
    packed_dtype_ = tensor->Dtype();
    const NoGradGuard no_grad;
    packed_ = hooks_->pack(Alias(*tensor));
    if (tensor->Version() != version_) {
        throw AutogradError("SavedTensorHooksGuard: the pack hook changed in place the tensor that it was given");
    }
}

TensorPtr SavedTensor::Unpack(const Function &owner) const {
    TensorPtr tensor = tensor_;
    if (hooks_ != nullptr) {
        const NoGradGuard no_grad;
        tensor = hooks_->unpack(packed_);
        if (tensor == nullptr || tensor->Dims() != packed_dims_ || tensor->Dtype() != packed_dtype_) {
            Throw<AutogradError>(
                "{}: the unpack hook gave {} where {} of {} was saved", owner.type(),
                tensor == nullptr ? "null" : FormatDims(tensor->Dims()) + " of " + ToString(tensor->Dtype()),
                FormatDims(packed_dims_), ToString(packed_dtype_));
        }
    } else if (tensor == nullptr) {
        return nullptr;
    } else if (tensor->Version() != version_) {
        Throw<AutogradError>(
            "{}: a tensor of shape {} that it saved for its backward pass was changed in place since (it "
            "is at version {}, version {} was saved)",
            owner.type(), FormatDims(tensor->Dims()), tensor->Version(), version_);
    }
    if (!requires_grad_ || !GradMode::IsEnabled()) {
        return tensor;
    }
    if (is_output_) {
        const auto self = std::const_pointer_cast<Function>(owner.shared_from_this());
        return AttachedAlias(*tensor, {self, output_idx_, FunctionAccess::Application(owner)});
    }
    return hooks_ != nullptr ? AttachedAlias(*tensor, {packed_function_, output_idx_, packed_application_}) : tensor;
}

void SavedTensor::LetGoOf(const Tensor &tensor) {
    if (tensor_.get() == &tensor) {
        tensor_ = Alias(tensor);
    }
}

}  // namespace infini_train::autograd
