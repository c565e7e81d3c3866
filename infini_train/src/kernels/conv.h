#pragma once

#include <cstdint>

#include "infini_train/include/core/dispatcher.h"

#include "infini_train/src/kernels/tensor_ref.h"

namespace infini_train::kernels {

/// The sizes of a 2-D convolution; channels are those of all groups.
struct Conv2dShape {
    int64_t batch, groups;
    int64_t in_channels, in_height, in_width;
    int64_t out_channels, out_height, out_width;
    int64_t kernel_height, kernel_width;
    int64_t stride_height, stride_width;
    int64_t padding_height, padding_width;
    int64_t dilation_height, dilation_width;
};

// Tensors are contiguous and of one floating-point type: input (batch, in_channels, in_height, in_width), output
// (batch, out_channels, out_height, out_width), weight (out_channels, in_channels / groups, kernel_height,
// kernel_width), bias (out_channels) or, for none, null data.

/// output = the cross-correlation of input and weight, plus bias.
struct Conv2dForward : KernelTag<void(TensorRef output, ConstTensorRef input, ConstTensorRef weight,
                                      ConstTensorRef bias, const Conv2dShape &shape)> {
    static constexpr const char *kName = "Conv2dForward";
};

/// The gradient in the input, written (not added).
struct Conv2dBackwardInput : KernelTag<void(TensorRef grad_input, ConstTensorRef grad_output, ConstTensorRef weight,
                                            const Conv2dShape &shape)> {
    static constexpr const char *kName = "Conv2dBackwardInput";
};

/// The gradient in the weight, written (not added).
struct Conv2dBackwardWeight : KernelTag<void(TensorRef grad_weight, ConstTensorRef grad_output, ConstTensorRef input,
                                             const Conv2dShape &shape)> {
    static constexpr const char *kName = "Conv2dBackwardWeight";
};

}  // namespace infini_train::kernels
