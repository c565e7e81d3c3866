#pragma once

#include "infini_train/include/core/dispatcher.h"

#include "infini_train/src/kernels/tensor_ref.h"

namespace infini_train::kernels {

/// Of each pair (a, b) of features (a cos - b sin, a sin + b cos); sin with the other sign if `inverse`. x and y are
/// (..., T, D) of one floating-point type and any strides, cos and sin (T, D / 2), contiguous, of that type or, for a
/// 16-bit x, float32. Pair i is (2 i, 2 i + 1) if `interleaved`, else (i, i + D / 2).
struct Rotary : KernelTag<void(TensorRef y, ConstTensorRef x, ConstTensorRef cos, ConstTensorRef sin, bool interleaved,
                               bool inverse)> {
    static constexpr const char *kName = "Rotary";
};

}  // namespace infini_train::kernels
