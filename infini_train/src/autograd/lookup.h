#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train::autograd {

/// A contiguous int64 tensor of the indices, itself if it is one. Throws DtypeError unless they are integers, and
/// IndexError for one outside of [0, limit): `name: index 7 at (0, 2) is out of range for <what>`.
TensorPtr CheckedIndex(const TensorPtr &index, int64_t limit, const char *name, const std::string &what);

/// ShapeError unless `index` has as many dimensions as `dims` and, but for `dim`, is nowhere larger.
void CheckIndexDims(const std::vector<int64_t> &dims, const std::vector<int64_t> &index, int64_t dim, const char *name);

/// The tensor, or one of dims (1,) over the element of a tensor without dimensions: what the lookup kernels take.
TensorPtr AtLeastOneDim(const TensorPtr &tensor);

}  // namespace infini_train::autograd
