#pragma once

#include "infini_train/include/core/dispatcher.h"

#include "infini_train/src/kernels/tensor_ref.h"

namespace infini_train::kernels {

// All tensors are contiguous, of the same dims and of one floating-point data type; `dim` is 0..ndim-1 (0 for a tensor
// of no dimensions). 16-bit types compute in float32.

/// output = exp(input - max) / sum(exp(input - max)) along `dim`.
struct SoftmaxForward : KernelTag<void(TensorRef output, ConstTensorRef input, int dim)> {
    static constexpr const char *kName = "SoftmaxForward";
};
/// grad_input = output * (grad_output - sum(grad_output * output)).
struct SoftmaxBackward
    : KernelTag<void(TensorRef grad_input, ConstTensorRef grad_output, ConstTensorRef output, int dim)> {
    static constexpr const char *kName = "SoftmaxBackward";
};

/// output = input - max - log(sum(exp(input - max))).
struct LogSoftmaxForward : KernelTag<void(TensorRef output, ConstTensorRef input, int dim)> {
    static constexpr const char *kName = "LogSoftmaxForward";
};
/// grad_input = grad_output - exp(output) * sum(grad_output).
struct LogSoftmaxBackward
    : KernelTag<void(TensorRef grad_input, ConstTensorRef grad_output, ConstTensorRef output, int dim)> {
    static constexpr const char *kName = "LogSoftmaxBackward";
};

}  // namespace infini_train::kernels
