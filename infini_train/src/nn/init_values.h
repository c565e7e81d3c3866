#pragma once

#include <cstdint>
#include <vector>

#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/core/generator.h"

namespace infini_train::nn::init {

/// Standard normal numbers, float64 on the CPU: what is computed from them is rounded only once.
TensorPtr NewNormals(const std::vector<int64_t> &dims, Generator *generator);

/// Copies contiguous `values`, as many as the tensor has elements, into it, unrecorded; gives the tensor.
TensorPtr Overwrite(const TensorPtr &tensor, const TensorPtr &values);

/// Throws ValueError for null, DtypeError unless the tensor is floating-point.
void CheckRandom(const char *name, const TensorPtr &tensor);

}  // namespace infini_train::nn::init
