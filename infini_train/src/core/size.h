#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "infini_train/include/datatype.h"

namespace infini_train {

/// The product of `dims`: 1 for none, 0 as soon as one of them is 0. A negative one or a product over 2^63 - 1 throws a
/// ShapeError that begins with `name`.
int64_t CheckedNumElements(std::span<const int64_t> dims, const char *name);

/// The bytes of `num_elements` (>= 0) elements; over 2^63 - 1 throws a ShapeError that begins with `name`.
size_t CheckedBytes(int64_t num_elements, DataType dtype, const char *name);

/// The bytes of a contiguous tensor of shape `dims`.
inline size_t CheckedBytes(std::span<const int64_t> dims, DataType dtype, const char *name) {
    return CheckedBytes(CheckedNumElements(dims, name), dtype, name);
}

}  // namespace infini_train
