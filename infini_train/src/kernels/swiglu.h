#pragma once

#include "infini_train/include/core/dispatcher.h"

#include "infini_train/src/kernels/tensor_ref.h"

namespace infini_train::kernels {

// All of the same dims and floating-point type, of any strides. 16-bit types are computed in float and rounded once.

/// y = silu(gate) * up
struct SwiGluForward : KernelTag<void(TensorRef y, ConstTensorRef gate, ConstTensorRef up)> {
    static constexpr const char *kName = "SwiGluForward";
};

/// Both gradients.
struct SwiGluBackward : KernelTag<void(TensorRef grad_gate, TensorRef grad_up, ConstTensorRef grad_y,
                                       ConstTensorRef gate, ConstTensorRef up)> {
    static constexpr const char *kName = "SwiGluBackward";
};

}  // namespace infini_train::kernels
