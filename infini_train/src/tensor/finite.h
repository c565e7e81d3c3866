#pragma once

#include <string>

#include "infini_train/include/tensor.h"

#include "infini_train/src/kernels/finite.h"
#include "infini_train/src/tensor/ref.h"

namespace infini_train {

/// Which kinds of values that aren't finite a tensor holds, as a sum of kernels::kHasNan, ...; 0 for none and for null.
inline int FindNonFinite(const Tensor *tensor) {
    return tensor == nullptr || tensor->NumElements() == 0
               ? 0
               : Dispatch<kernels::FindNonFinite>(tensor->GetDevice(), Ref(*tensor));
}

/// `nan`, `inf`, `-inf`, or several of them as `nan, inf and -inf`.
std::string DescribeNonFinite(int kinds);

}  // namespace infini_train
