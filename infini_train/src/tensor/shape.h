#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "infini_train/include/tensor.h"

namespace infini_train {

/// Row-major strides.
std::vector<int64_t> ContiguousStrides(std::span<const int64_t> dims);

/// `dim` counted from the front: -ndim..ndim-1 is allowed (for ndim 0: -1 and 0); IndexError otherwise.
int64_t NormalizeDim(int64_t dim, int64_t ndim, const char *name);
/// The same for several; empty means all; a repeated one is a ValueError. Sorted.
std::vector<int64_t> NormalizeDims(std::span<const int64_t> dims, int64_t ndim, const char *name);

/// The dims that two operands broadcast to; ShapeError if they don't.
std::vector<int64_t> BroadcastDims(std::span<const int64_t> a, std::span<const int64_t> b, const char *name);

/// A view of `tensor` with `dims`, its size-1 and missing leading dimensions at stride 0. Outside of the graph.
TensorPtr BroadcastTo(const Tensor &tensor, const std::vector<int64_t> &dims, const char *name);

/// A view with other dims, or null where the strides don't allow it. Outside of the graph.
TensorPtr TryView(const Tensor &tensor, const std::vector<int64_t> &dims);
/// Resolves a -1 in `dims` for `num_elements`; ShapeError if the counts differ.
std::vector<int64_t> InferDims(const std::vector<int64_t> &dims, int64_t num_elements, const char *name);

/// Throws ValueError for a null tensor and DeviceError for tensors on several devices; `tensors` are named "input 0",
/// ...
void CheckOperands(const char *name, const TensorList &tensors);

/// The tensor itself or a contiguous copy. Outside of the graph.
TensorPtr ContiguousCopy(const TensorPtr &tensor);
/// A converted copy, contiguous. Outside of the graph.
TensorPtr CastCopy(const Tensor &tensor, DataType dtype);

}  // namespace infini_train
