#pragma once

#include "infini_train/include/core/dispatcher.h"

#include "infini_train/src/kernels/tensor_ref.h"

namespace infini_train::kernels {

/// What FindNonFinite gives is a sum of these.
inline constexpr int kHasNan = 1;
inline constexpr int kHasPositiveInf = 2;
inline constexpr int kHasNegativeInf = 4;

/// Which kinds of values that aren't finite there are among the elements; 0 for none, and for any type that has none.
/// Any strides.
struct FindNonFinite : KernelTag<int(ConstTensorRef input)> {
    static constexpr const char *kName = "FindNonFinite";
};

}  // namespace infini_train::kernels
