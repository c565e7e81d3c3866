#pragma once

#include "infini_train/include/core/dispatcher.h"

#include "infini_train/src/kernels/tensor_ref.h"

namespace infini_train::kernels {

/// output (..., m, n) = a (..., m, k) times b (..., k, n) [+ bias (n)], all of one data type: floating-point, int32 or
/// int64 (which wrap). The operands have the same number of dimensions (>= 2) and the same batch dimensions, stride 0
/// where one is broadcast. In each matrix one of the strides is 1 and the other at least as long as that row or column
/// (dimensions of size 1 aside). The output is contiguous, and so is the bias; null data means none.
struct Matmul : KernelTag<void(TensorRef output, ConstTensorRef a, ConstTensorRef b, ConstTensorRef bias)> {
    static constexpr const char *kName = "Matmul";
};

/// output (channels) = the sum over all but the middle dimension of input (outer, channels, inner). Floating-point,
/// contiguous; summed in float or wider. The gradient of a bias.
struct ChannelSum : KernelTag<void(TensorRef output, ConstTensorRef input, int64_t outer, int64_t inner)> {
    static constexpr const char *kName = "ChannelSum";
};

}  // namespace infini_train::kernels
