#pragma once

#include "infini_train/include/core/dispatcher.h"
#include "infini_train/include/core/generator.h"

#include "infini_train/src/kernels/tensor_ref.h"

namespace infini_train::kernels {

/// mask[i] = whether element i is kept, output[i] = mask[i] ? input[i] * scale : 0. Element i of the row-major order is
/// kept if word i % 4 of Philox block i / 4 after `state`, a number below 2^32, is >= drop * 2^32 (rounded), so with
/// probability 1 - drop. All contiguous and of the same dims; mask is bool; floating-point types.
struct DropoutForward : KernelTag<void(TensorRef output, TensorRef mask, ConstTensorRef input, double drop,
                                       double scale, Generator::State state)> {
    static constexpr const char *kName = "DropoutForward";
};

/// output[i] = mask[i] ? input[i] * scale : 0. All contiguous and of the same dims; floating-point types.
struct MaskScale : KernelTag<void(TensorRef output, ConstTensorRef input, ConstTensorRef mask, double scale)> {
    static constexpr const char *kName = "MaskScale";
};

}  // namespace infini_train::kernels
