#pragma once

#include <cstdint>
#include <vector>

#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train::autograd {

/// The gradient of an operand of `dims` that was broadcast to the dims of `grad`: sums what broadcasting repeated and
/// drops the dimensions that it added in front. Gives `grad` itself where nothing was broadcast. Differentiable.
TensorPtr SumTo(const TensorPtr &grad, const std::vector<int64_t> &dims);

}  // namespace infini_train::autograd
