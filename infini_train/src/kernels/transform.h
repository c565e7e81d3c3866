#pragma once

#include <cstdint>
#include <span>

#include "infini_train/include/core/dispatcher.h"
#include "infini_train/include/scalar.h"

#include "infini_train/src/kernels/tensor_ref.h"

namespace infini_train::kernels {

/// Keeps a triangle of the last two dimensions and writes zeros elsewhere: lower keeps column <= row + diagonal, upper
/// column >= row + diagonal. Same dims and data type; output contiguous, input of any strides.
/// -rows <= diagonal <= columns.
struct Triangle : KernelTag<void(TensorRef output, ConstTensorRef input, int64_t diagonal, bool lower)> {
    static constexpr const char *kName = "Triangle";
};

/// output = mask ? value : input. All of the same dims; mask is bool; output contiguous and of input's data type, input
/// and mask of any strides.
struct MaskedFill : KernelTag<void(TensorRef output, ConstTensorRef input, ConstTensorRef mask, Scalar value)> {
    static constexpr const char *kName = "MaskedFill";
};

/// Joins the inputs along `dim`. All contiguous, of one data type and, but for `dim`, of the same dims.
struct Concat : KernelTag<void(TensorRef output, std::span<const ConstTensorRef> inputs, int dim)> {
    static constexpr const char *kName = "Concat";
};

}  // namespace infini_train::kernels
