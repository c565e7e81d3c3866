#pragma once

#include <concepts>
#include <functional>
#include <memory>

#include "infini_train/include/common/error.h"
#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train::autograd {

struct CheckpointOptions {
    /// The recomputation ends as soon as it has all that the backward pass can need, in the middle of the function.
    bool early_stop = true;
    /// What the recomputation saves must agree with what the forward pass saved in the operator that saves it and in
    /// how often the tensor was changed in place, besides dims, data type and device.
    bool check_determinism = true;
};

/// The outputs of `function(inputs)`, whose saved tensors are not kept but computed again when a backward pass needs
/// them first, by a second call of the function: less memory for about a third more time (T. Chen et al., "Training
/// deep nets with sublinear memory cost", arXiv:1604.06174). The graph is the one that `function(inputs)` records; its
/// hooks, Grad, retained graphs, second derivatives and checkpoints within checkpoints work as without.
///
///     auto y = autograd::Checkpoint([&](const TensorList &in) { return TensorList{in[0]->Matmul(w)->Gelu()}; },
///     {x})[0]; auto z = autograd::Checkpoint(block, {y})[0];  // a module
///
/// The second call runs in the thread that runs the backward pass, at a later time. It is given the same values, in
/// tensors of their own, and this thread's random numbers are the same again; generators don't notice. It must compute
/// the same: an AutogradError says which saved tensor is another one, and how. It repeats whatever else the function
/// does, forward hooks of modules included; IsRecomputing tells it from the first. The function is kept until the graph
/// is freed, with all that it holds.
///
/// Inputs may be null and need not require a gradient, the function may use other tensors too, and give any number of
/// outputs. Under a NoGradGuard it is simply called. Throws ValueError for an empty function, AutogradError if the
/// function changed an input in place (it couldn't be called again) or inside of a DisableSavedTensorHooksGuard.
INFINI_TRAIN_EXPORT TensorList Checkpoint(std::function<TensorList(const TensorList &)> function,
                                          const TensorList &inputs, const CheckpointOptions &options = {});

/// The same of `(*module)(inputs)`. The graph keeps the module.
template <typename M>
requires requires(M &module, const TensorList &inputs) {
    { module(inputs) } -> std::convertible_to<TensorList>;
}
TensorList Checkpoint(const std::shared_ptr<M> &module, const TensorList &inputs,
                      const CheckpointOptions &options = {}) {
    if (module == nullptr) {
        throw ValueError("Checkpoint: expected a module, got null");
    }
    return Checkpoint([module](const TensorList &again) -> TensorList { return (*module)(again); }, inputs, options);
}

/// Whether this thread is in the second call of a checkpoint's function: for forward hooks that count, and for modules
/// that keep running statistics.
INFINI_TRAIN_EXPORT bool IsRecomputing();

}  // namespace infini_train::autograd
