#pragma once

#include <cstdint>
#include <span>

#include "infini_train/include/core/dispatcher.h"
#include "infini_train/include/datatype.h"

namespace infini_train::kernels {

// One call handles all gradients of a model.

/// A contiguous gradient of `num_elements` > 0 floating-point elements.
struct FlatGrad {
    void *data = nullptr;
    int64_t begin = 0;  ///< how many elements the gradients before it in the list have
    int64_t num_elements = 0;
    DataType dtype = DataType::kFLOAT32;
};

enum class GradNormKind : uint8_t { kSumOfAbs, kSumOfSquares, kMaxAbs };

/// Over all elements, in float64: a sum, or the largest magnitude (NaN if there is one).
struct GradNorm : KernelTag<double(std::span<const FlatGrad> grads, GradNormKind kind)> {
    static constexpr const char *kName = "GradNorm";
};

/// Multiplies all elements by a factor.
struct ScaleGrads : KernelTag<void(std::span<const FlatGrad> grads, double factor)> {
    static constexpr const char *kName = "ScaleGrads";
};

/// Limits all elements to [-limit, limit]; NaN stays.
struct ClampGrads : KernelTag<void(std::span<const FlatGrad> grads, double limit)> {
    static constexpr const char *kName = "ClampGrads";
};

}  // namespace infini_train::kernels
