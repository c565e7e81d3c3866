#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/common/hook.h"
#include "infini_train/include/common/lazy.h"
#include "infini_train/include/tensor.h"

namespace infini_train::autograd {

class AccumulateGrad;
class GraphTask;

/// What is to be called after a leaf's own hooks, the smallest `order` first.
struct AfterLeaf {
    size_t order;
    std::function<void()> call;
};
/// Told when a pass is through with a leaf, whether a gradient was `accumulated` or none came. Adds to `after`.
using LeafWatcher = std::function<void(GraphTask &task, bool accumulated, std::vector<AfterLeaf> *after)>;

/// The place of a tensor in the graph, its gradient, and a leaf's hooks. (The hooks of any other tensor lie with the
/// function that made it, so that they stay with the value when the tensor is changed in place.)
struct AutogradMeta : infini_train::internal::AutogradMetaBase {
    struct LeafHooks {
        HookList<TensorHook> tensor;
        HookList<PostAccumulateHook> post_accumulate;
        infini_train::internal::Lazy<HookList<LeafWatcher>> watchers;
    };

    TensorPtr grad;
    Edge edge;  // without a function for a leaf
    bool retains_grad = false;
    bool is_view = false;       // shares its storage with an input of edge.function
    uint32_t view_version = 0;  // of the storage when the view was recorded

    std::mutex mutex;  // guards the accumulator, and a leaf's accumulation
    std::weak_ptr<AccumulateGrad> accumulator;

    std::unique_ptr<LeafHooks> leaf_hooks;  // of a leaf that requires a gradient, from then on
};

inline AutogradMeta *GetMeta(const Tensor &tensor) {
    return static_cast<AutogradMeta *>(tensor.autograd_meta());
}
AutogradMeta &MutableMeta(Tensor &tensor);

/// Where the gradient of a tensor that requires one goes: the function that made it, or the accumulator of a leaf.
/// Throws AutogradError for a view whose base was changed in place since.
Edge GradientEdge(const TensorPtr &tensor);

/// The accumulator of a leaf, or null if no graph has one at the moment.
std::shared_ptr<AccumulateGrad> FindAccumulator(const Tensor &leaf);

/// Another tensor object over the same elements, outside of the graph.
TensorPtr Alias(const Tensor &tensor);

/// Throws AutogradError, which begins with `name`, if autograd forbids changing `self` in place: a recorded leaf, or a
/// recorded view.
void CheckInPlaceAllowed(const Tensor &self, const char *name);

/// Ends a recorded in-place operation: the values of `result`, computed out of place from `self`, move into self's
/// memory, and its place in the graph becomes self's.
void RebaseInPlace(const TensorPtr &self, const TensorPtr &result);

/// Adds `grad` to *sum (null: nothing yet), which never shares memory with anything else afterwards.
void AccumulateInto(TensorPtr *sum, const TensorPtr &grad);

/// The tensor if nobody else holds it or its memory, otherwise a copy: what a hook may be given to change.
TensorPtr OwnForHook(const TensorPtr &grad);
void OwnForHooks(TensorList *grads);

/// Throws AutogradError, which begins with `who()`, unless `grad` has the dims, data type and device wanted.
[[noreturn]] void ThrowWrongGradient(const Tensor &grad, std::span<const int64_t> dims, DataType dtype, Device device,
                                     const char *what, const std::string &who);
template <typename Who>
void CheckGradient(const Tensor &grad, std::span<const int64_t> dims, DataType dtype, Device device, const char *what,
                   const Who &who) {
    if (!std::equal(dims.begin(), dims.end(), grad.Dims().begin(), grad.Dims().end()) || grad.Dtype() != dtype ||
        grad.GetDevice() != device) {
        ThrowWrongGradient(grad, dims, dtype, device, what, who());
    }
}

}  // namespace infini_train::autograd
