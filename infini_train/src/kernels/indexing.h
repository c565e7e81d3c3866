#pragma once

#include <cstdint>

#include "infini_train/include/core/dispatcher.h"

#include "infini_train/src/kernels/tensor_ref.h"

namespace infini_train::kernels {

// Indices are int64 and, but for FindBadIndex, all valid.

/// The first row-major position of a contiguous `index` whose value is not in [0, limit), or -1.
struct FindBadIndex : KernelTag<int64_t(ConstTensorRef index, int64_t limit)> {
    static constexpr const char *kName = "FindBadIndex";
};

/// output[.., j, ..] = input[.., index[.., j, ..], ..], where only the position in `dim` is looked up. Output and index
/// have the same dims, at most input's apart from `dim`; one data type; any strides.
struct Gather : KernelTag<void(TensorRef output, ConstTensorRef input, ConstTensorRef index, int dim)> {
    static constexpr const char *kName = "Gather";
};

/// output[.., index[.., j, ..], ..] += source[.., j, ..], in the order of j; the dims as in Gather with the roles of
/// output and input exchanged. Both of one data type: float32, float64 or int64. Any strides.
struct ScatterAdd : KernelTag<void(TensorRef output, ConstTensorRef source, ConstTensorRef index, int dim)> {
    static constexpr const char *kName = "ScatterAdd";
};

/// output[i] = weight[index[i]]: output (N, D) and index (N) contiguous, weight (V, D) with dense rows.
struct EmbeddingForward : KernelTag<void(TensorRef output, ConstTensorRef weight, ConstTensorRef index)> {
    static constexpr const char *kName = "EmbeddingForward";
};

/// Adds grad_output[i] to grad_weight[index[i]], in the order of i. grad_weight (V, D) and index (N) contiguous,
/// grad_output (N, D) with dense rows; float32 or float64.
struct EmbeddingBackward : KernelTag<void(TensorRef grad_weight, ConstTensorRef grad_output, ConstTensorRef index)> {
    static constexpr const char *kName = "EmbeddingBackward";
};

}  // namespace infini_train::kernels
