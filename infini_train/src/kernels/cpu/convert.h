#pragma once

#include <cstdint>

#include "infini_train/include/datatype.h"

namespace infini_train::cpu {

/// Elements that kernels convert at a time, in a buffer on the stack.
inline constexpr int64_t kChunk = 512;
/// Such a buffer holds elements of any type.
struct alignas(64) ChunkBuffer {
    char bytes[kChunk * 8];
};

/// output[i] = input[i], converted as static_cast does, for `n` adjacent elements. A float out of an integer's range
/// saturates and NaN becomes 0.
using Converter = void (*)(const void *input, void *output, int64_t n);

/// From or to one of float32, float64, int64 and uint64; null for any other pair. The same type is a plain copy.
Converter GetConverter(DataType from, DataType to);

/// The type through which a conversion of other types goes without a loss: one of the four above.
DataType WideType(DataType dtype);

/// Whether a conversion keeps all bits: equal types, and integers of one size.
bool IsPlainCopy(DataType from, DataType to);

/// Up to kChunk elements to or from adjacent ones; strides in bytes, `size` of an element 1, 2, 4 or 8.
void Gather(const void *input, int64_t stride, void *output, int64_t n, int64_t size);
void Scatter(const void *input, void *output, int64_t stride, int64_t n, int64_t size);

/// Reads `n` <= kChunk elements of type `from`, `stride` bytes apart, as adjacent elements of type `to`.
void LoadConverted(const void *input, int64_t stride, DataType from, void *output, DataType to, int64_t n);
/// The inverse: writes adjacent elements of type `from` as elements of type `to`, `stride` bytes apart.
void StoreConverted(const void *input, DataType from, void *output, int64_t stride, DataType to, int64_t n);

}  // namespace infini_train::cpu
