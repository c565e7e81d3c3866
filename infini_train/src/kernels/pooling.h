#pragma once

#include <cstdint>

#include "infini_train/include/core/dispatcher.h"

#include "infini_train/src/kernels/tensor_ref.h"

namespace infini_train::kernels {

/// The sizes of a 2-D pooling; `planes` are all images' channels. Average pooling has a dilation of 1.
struct Pool2dShape {
    int64_t planes;
    int64_t in_height, in_width;
    int64_t out_height, out_width;
    int64_t kernel_height, kernel_width;
    int64_t stride_height, stride_width;
    int64_t padding_height, padding_width;
    int64_t dilation_height, dilation_width;
    bool count_include_pad;
};

// Tensors are contiguous: inputs and their gradients (planes, in_height, in_width), outputs and theirs (planes,
// out_height, out_width), of one floating-point type; indices int32 as outputs, row * in_width + column, -1 for a
// window that sees nothing but padding.

/// The largest of each window and where it is. Reading the window row by row, a value wins if it is larger than the
/// one before or NaN.
struct MaxPool2d
    : KernelTag<void(TensorRef output, TensorRef indices, ConstTensorRef input, const Pool2dShape &shape)> {
    static constexpr const char *kName = "MaxPool2d";
};
/// grad_input = 0 and the gradients added at their indices, in order.
struct MaxPool2dBackward
    : KernelTag<void(TensorRef grad_input, ConstTensorRef grad_output, ConstTensorRef indices, int64_t planes)> {
    static constexpr const char *kName = "MaxPool2dBackward";
};
/// output = the input's values at the indices.
struct MaxPool2dGather
    : KernelTag<void(TensorRef output, ConstTensorRef input, ConstTensorRef indices, int64_t planes)> {
    static constexpr const char *kName = "MaxPool2dGather";
};

/// The mean of each window.
struct AvgPool2d : KernelTag<void(TensorRef output, ConstTensorRef input, const Pool2dShape &shape)> {
    static constexpr const char *kName = "AvgPool2d";
};
struct AvgPool2dBackward : KernelTag<void(TensorRef grad_input, ConstTensorRef grad_output, const Pool2dShape &shape)> {
    static constexpr const char *kName = "AvgPool2dBackward";
};

}  // namespace infini_train::kernels
