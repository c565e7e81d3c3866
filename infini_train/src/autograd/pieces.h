#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/autograd/transform.h"
#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train::autograd {

// Parts of a tensor outside of the graph, all of them views; dims and positions are in range.
TensorPtr SliceView(const Tensor &tensor, std::span<const DimSlice> slices);
TensorPtr SelectView(const Tensor &tensor, int64_t dim, int64_t index);
TensorPtr UnsqueezeView(const Tensor &tensor, int64_t dim);

/// The gradient of what a Slice took from a tensor of `input_dims`: zeros around `grad`. Differentiable.
TensorPtr SliceGrad(const TensorPtr &grad, const std::vector<int64_t> &input_dims, const std::vector<DimSlice> &slices);

/// The gradient of a tensor of `input_dims` that was cut along `dim` into pieces of these sizes; a null gradient stands
/// for zeros. Where `drops_dim`, the pieces of size 1 have lost the
/// dimension. Null if all are. Differentiable.
TensorPtr JoinGrads(const TensorList &grads, const std::vector<int64_t> &input_dims, int64_t dim,
                    const std::vector<int64_t> &sizes, bool drops_dim);

}  // namespace infini_train::autograd
