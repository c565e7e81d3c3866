#include "infini_train/src/autograd/meta.h"

#include <unordered_set>
#include <vector>

#include "infini_train/include/autograd/accumulate.h"
#include "infini_train/include/autograd/grad_mode.h"

#include "infini_train/src/autograd/function_hooks.h"
#include "infini_train/src/common/format.h"
#include "infini_train/src/tensor/shape.h"

namespace infini_train::autograd {

AutogradMeta &MutableMeta(Tensor &tensor) {
    if (tensor.autograd_meta() == nullptr) {
        tensor.set_autograd_meta(std::make_unique<AutogradMeta>());
    }
    return *GetMeta(tensor);
}

Edge GradientEdge(const TensorPtr &tensor) {
    AutogradMeta &meta = *GetMeta(*tensor);
    if (meta.edge.function != nullptr) {
        if (meta.is_view && tensor->Version() != meta.view_version) {
            Throw<AutogradError>(
                "{}: its output of shape {} is a view of a tensor that was changed in place since, so its gradient "
                "can't "
                "be known; take the view again after the change",
                meta.edge.function->type(), FormatDims(tensor->Dims()));
        }
        return meta.edge;
    }
    std::lock_guard lock(meta.mutex);
    auto accumulator = meta.accumulator.lock();
    if (accumulator == nullptr) {
        accumulator = std::make_shared<AccumulateGrad>(tensor);
        meta.accumulator = accumulator;
    }
    return {std::move(accumulator), 0, 0};
}

std::shared_ptr<AccumulateGrad> FindAccumulator(const Tensor &leaf) {
    AutogradMeta *meta = GetMeta(leaf);
    if (meta == nullptr) {
        return nullptr;
    }
    std::lock_guard lock(meta->mutex);
    return meta->accumulator.lock();
}

TensorPtr Alias(const Tensor &tensor) {
    return std::make_shared<Tensor>(tensor.storage(), tensor.layout(), tensor.StorageOffset(), tensor.Dtype());
}

void CheckInPlaceAllowed(const Tensor &self, const char *name) {
    if (!GradMode::IsEnabled() || !self.requires_grad()) {
        return;
    }
    const AutogradMeta &meta = *GetMeta(self);
    if (meta.edge.function == nullptr) {
        Throw<AutogradError>(
            "{}: a leaf of shape {} that requires a gradient can't be changed in place while gradients "
            "are recorded; use a NoGradGuard, or the operator that makes a new tensor",
            name, FormatDims(self.Dims()));
    }
    if (meta.is_view) {
        Throw<AutogradError>(
            "{}: an output of {} of shape {} shares its memory with that function's input, so it can't be "
            "changed in place while gradients are recorded; use Clone first, or the operator that makes "
            "a new tensor",
            name, meta.edge.function->type(), FormatDims(self.Dims()));
    }
}

namespace {

// Before a plain tensor gets a place in the graph behind `function`: what was computed from it there may have saved it,
// and would hold it while it holds them. (What they saved is of an older version now, so it is only good for an error.)
void LetGoOf(const Tensor &tensor, const std::shared_ptr<Function> &function) {
    std::unordered_set<Function *> seen = {function.get()};
    std::vector<Function *> pending = {function.get()};
    while (!pending.empty()) {
        Function &next = *pending.back();
        pending.pop_back();
        for (SavedTensor &saved : FunctionAccess::Saved(next)) {
            saved.LetGoOf(tensor);
        }
        for (const Edge &edge : next.next_edges()) {
            if (edge.function != nullptr && seen.insert(edge.function.get()).second) {
                pending.push_back(edge.function.get());
            }
        }
    }
}

}  // namespace

void RebaseInPlace(const TensorPtr &self, const TensorPtr &result) {
    const AutogradMeta *from = GetMeta(*result);
    Edge edge = from != nullptr ? from->edge : Edge{};
    {
        const NoGradGuard no_grad;
        self->CopyFrom(*result);
    }
    if (edge.function == nullptr) {
        return;
    }
    if (!self->requires_grad()) {
        LetGoOf(*self, edge.function);
    }
    AutogradMeta &meta = MutableMeta(*self);
    if (meta.retains_grad) {
        // The value that keeps its gradient is the new one; hooks stay with the value they were registered on.
        if (auto *output = FunctionAccess::MutableHooks(*meta.edge.function).FindOutput(meta.edge.output_idx)) {
            output->retains_grad.reset();
        }
        FunctionAccess::MutableHooks(*edge.function).MutableOutput(edge.output_idx).retains_grad = self;
    }
    meta.requires_grad = true;
    meta.edge = std::move(edge);
}

namespace {

bool IsOwned(const TensorPtr &grad) {
    return grad == nullptr || (grad.use_count() == 1 && grad->storage().use_count() == 1);
}

}  // namespace

TensorPtr OwnForHook(const TensorPtr &grad) {
    if (IsOwned(grad)) {
        return grad;
    }
    return GradMode::IsEnabled() && grad->requires_grad() ? grad->Clone() : CastCopy(*grad, grad->Dtype());
}

void OwnForHooks(TensorList *grads) {
    for (auto &grad : *grads) {
        if (!IsOwned(grad)) {
            grad = OwnForHook(grad);
        }
    }
}

void ThrowWrongGradient(const Tensor &grad, std::span<const int64_t> dims, DataType dtype, Device device,
                        const char *what, const std::string &who) {
    Throw<AutogradError>("{}: expected {} of shape {}, {} on {}, got {}, {} on {}", who, what, FormatDims(dims),
                         ToString(dtype), device.ToString(), FormatDims(grad.Dims()), ToString(grad.Dtype()),
                         grad.GetDevice().ToString());
}

}  // namespace infini_train::autograd
