#pragma once

#include "infini_train/include/core/dispatcher.h"

#include "infini_train/src/kernels/tensor_ref.h"

namespace infini_train::kernels {

// All tensors are contiguous. x, y and their gradients hold `rows` rows of n elements, where rows is the size of `mean`
// and `rstd`; weight, bias and their gradients hold n elements. One floating-point data type for all but mean and rstd,
// which are float64 for float64 and float32 otherwise. Tensors that aren't wanted have null data: without `mean`
// nothing is subtracted, and the variance is the mean square.

/// y = (x - mean) * rstd * weight + bias with rstd = 1 / sqrt(variance + eps), of each row.
struct LayerNormForward : KernelTag<void(TensorRef y, TensorRef mean, TensorRef rstd, ConstTensorRef x,
                                         ConstTensorRef weight, ConstTensorRef bias, double eps)> {
    static constexpr const char *kName = "LayerNormForward";
};

/// The gradients of x, weight and bias. They don't depend on the number of threads.
struct LayerNormBackward
    : KernelTag<void(TensorRef grad_x, TensorRef grad_weight, TensorRef grad_bias, ConstTensorRef grad_y,
                     ConstTensorRef x, ConstTensorRef weight, ConstTensorRef mean, ConstTensorRef rstd)> {
    static constexpr const char *kName = "LayerNormBackward";
};

}  // namespace infini_train::kernels
