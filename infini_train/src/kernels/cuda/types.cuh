#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "infini_train/include/datatype.h"

#include "infini_train/src/cuda/error.h"

namespace infini_train::cuda {

// The C++ types of device code: those of the host, but __nv_bfloat16 and __half for the 16-bit floats.

template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>;
template <typename T>
inline constexpr bool kIsFloating = kIsHalf<T> || std::is_floating_point_v<T>;

/// What sums and formulas are computed in: float for floats up to 32 bits, double for double, int64_t for integers.
template <typename T>
using Accumulate =
    std::conditional_t<std::is_same_v<T, double>, double, std::conditional_t<kIsFloating<T>, float, int64_t>>;

template <typename T>
__device__ __forceinline__ Accumulate<T> Load(T value) {
    if constexpr (std::is_same_v<T, __half>) {
        return __half2float(value);
    } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
        return __bfloat162float(value);
    } else {
        return static_cast<Accumulate<T>>(value);
    }
}

/// Rounds once, to nearest even.
template <typename T>
__device__ __forceinline__ T Store(Accumulate<T> value) {
    if constexpr (std::is_same_v<T, __half>) {
        return __float2half_rn(value);
    } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
        return __float2bfloat16_rn(value);
    } else if constexpr (std::is_same_v<T, bool>) {
        return value != 0;
    } else {
        return static_cast<T>(value);
    }
}

/// Calls `body(std::type_identity<T>{})` with the device type of a floating-point `dtype`; throws DtypeError otherwise.
template <typename F>
void VisitFloating(const char *kernel, DataType dtype, F &&body) {
    switch (dtype) {
        case DataType::kFLOAT32:
            return body(std::type_identity<float>{});
        case DataType::kFLOAT64:
            return body(std::type_identity<double>{});
        case DataType::kBFLOAT16:
            return body(std::type_identity<__nv_bfloat16>{});
        case DataType::kFLOAT16:
            return body(std::type_identity<__half>{});
        default:
            ThrowDtype(kernel, "a floating-point tensor", dtype);
    }
}

/// The same for every data type.
template <typename F>
void VisitAll(const char *kernel, DataType dtype, F &&body) {
    switch (dtype) {
        case DataType::kUINT8:
            return body(std::type_identity<uint8_t>{});
        case DataType::kINT8:
            return body(std::type_identity<int8_t>{});
        case DataType::kUINT16:
            return body(std::type_identity<uint16_t>{});
        case DataType::kINT16:
            return body(std::type_identity<int16_t>{});
        case DataType::kUINT32:
            return body(std::type_identity<uint32_t>{});
        case DataType::kINT32:
            return body(std::type_identity<int32_t>{});
        case DataType::kUINT64:
            return body(std::type_identity<uint64_t>{});
        case DataType::kINT64:
            return body(std::type_identity<int64_t>{});
        case DataType::kBOOL:
            return body(std::type_identity<bool>{});
        default:
            return VisitFloating(kernel, dtype, static_cast<F &&>(body));
    }
}

/// The same for the types of indices, int32 and int64.
template <typename F>
void VisitIndex(const char *kernel, DataType dtype, F &&body) {
    switch (dtype) {
        case DataType::kINT32:
            return body(std::type_identity<int32_t>{});
        case DataType::kINT64:
            return body(std::type_identity<int64_t>{});
        default:
            ThrowDtype(kernel, "int32 or int64 indices", dtype);
    }
}

/// Elements of one size are moved alike, whatever they mean: calls `body` with an unsigned integer of `bytes` bytes.
template <typename F>
void VisitBits(size_t bytes, F &&body) {
    switch (bytes) {
        case 1:
            return body(std::type_identity<uint8_t>{});
        case 2:
            return body(std::type_identity<uint16_t>{});
        case 4:
            return body(std::type_identity<uint32_t>{});
        default:
            return body(std::type_identity<uint64_t>{});
    }
}

}  // namespace infini_train::cuda
