#pragma once

#include <optional>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train::autograd {

/// The gradients of the sum of `outputs`, weighted by `grad_outputs`, with respect to `inputs`; no grad() is written
/// and no post-accumulate hook runs, tensor hooks do. `grad_outputs` may be empty or hold nulls where an output has one
/// element. `retain_graph` defaults to `create_graph`, which records the gradients so that they can be differentiated
/// again. An input that the outputs don't depend on is an AutogradError, or null with `allow_unused`.
INFINI_TRAIN_EXPORT TensorList Grad(const TensorList &outputs, const TensorList &inputs,
                                    const TensorList &grad_outputs = {},
                                    std::optional<bool> retain_graph = std::nullopt, bool create_graph = false,
                                    bool allow_unused = false);

/// Tensor::Backward from several tensors in one pass.
INFINI_TRAIN_EXPORT void Backward(const TensorList &tensors, const TensorList &gradients = {},
                                  std::optional<bool> retain_graph = std::nullopt, bool create_graph = false);

}  // namespace infini_train::autograd
