#pragma once

#include "infini_train/include/core/dispatcher.h"

#include "infini_train/src/kernels/tensor_ref.h"

namespace infini_train::kernels {

// The output has as many dimensions as the input: of size 1 where it is reduced, of the input's size elsewhere. The
// input may have any strides; the output is contiguous. No result depends on the number of threads.

/// output = sum(input) / divisor; over nothing 0 / divisor. Floating-point data types stay, all others give int64,
/// which wraps and isn't divided. float32 and narrower add up in float32 blocks, the blocks in float64.
struct ReduceSum : KernelTag<void(TensorRef output, ConstTensorRef input, double divisor)> {
    static constexpr const char *kName = "ReduceSum";
};

/// The largest element; NaN if there is one. All data types. What is reduced isn't empty.
struct ReduceMax : KernelTag<void(TensorRef output, ConstTensorRef input)> {
    static constexpr const char *kName = "ReduceMax";
};
struct ReduceMin : KernelTag<void(TensorRef output, ConstTensorRef input)> {
    static constexpr const char *kName = "ReduceMin";
};

/// The position (int64) along `dim` of the first largest element, or of the first NaN.
struct ReduceArgmax : KernelTag<void(TensorRef output, ConstTensorRef input, int dim)> {
    static constexpr const char *kName = "ReduceArgmax";
};
struct ReduceArgmin : KernelTag<void(TensorRef output, ConstTensorRef input, int dim)> {
    static constexpr const char *kName = "ReduceArgmin";
};

}  // namespace infini_train::kernels
