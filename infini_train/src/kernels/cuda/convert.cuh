#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "infini_train/include/datatype.h"

#include "infini_train/src/kernels/cuda/types.cuh"
#include "infini_train/src/kernels/cuda/vector.cuh"

// Between memory of a data type that is known at run time and registers of the type that a kernel computes in. The
// choice is the same for all threads, so it costs next to nothing beside the memory.

namespace infini_train::cuda {

/// As static_cast does, but a float out of an integer's range saturates, NaN becomes 0, and 16-bit floats are rounded
/// to by way of float.
template <typename To, typename From>
__device__ __forceinline__ To Convert(From value) {
    if constexpr (std::is_same_v<To, From>) {
        return value;
    } else if constexpr (kIsHalf<From>) {
        return Convert<To>(Load(value));
    } else if constexpr (kIsHalf<To>) {
        return Store<To>(static_cast<float>(value));
    } else if constexpr (std::is_same_v<To, bool>) {
        return value != 0;
    } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
        // As a float the upper limit may round up to a power of two, hence >=.
        constexpr To kMax = std::numeric_limits<To>::max();
        constexpr To kMin = std::numeric_limits<To>::min();
        return value >= static_cast<From>(kMax)   ? kMax
               : value <= static_cast<From>(kMin) ? kMin
               : value == value                   ? static_cast<To>(value)
                                                  : To{0};
    } else {
        return static_cast<To>(value);
    }
}

/// How many elements a thread takes at a time in the type that a kernel computes in; uint64 isn't worth the code.
template <typename C>
inline constexpr int kGroupLength = std::is_same_v<C, uint64_t> ? 1
                                    : sizeof(C) == 4            ? 8
                                                                : 4;

/// The data types that LoadGroup and StoreGroup take for groups of kGroupLength<C>; single elements are of any type.
template <typename C>
constexpr bool HasGroups(DataType dtype) {
    switch (dtype) {
        case DataType::kBOOL:
            return true;
        case DataType::kFLOAT32:
        case DataType::kBFLOAT16:
        case DataType::kFLOAT16:
            return std::is_same_v<C, float>;
        case DataType::kFLOAT64:
            return std::is_same_v<C, double>;
        case DataType::kINT64:
        case DataType::kINT32:
            return std::is_same_v<C, int64_t>;
        default:
            return false;
    }
}

namespace internal {

template <typename T, typename C, int kLength>
__device__ __forceinline__ void LoadAs(const void *data, int64_t offset, C (&values)[kLength]) {
    const T *const from = static_cast<const T *>(data) + offset;
    if constexpr (kLength == 1) {
        values[0] = Convert<C>(*from);
    } else {
        const auto group = Vec<T, kLength>::Load(from);
#pragma unroll
        for (int i = 0; i < kLength; ++i) {
            values[i] = Convert<C>(group[i]);
        }
    }
}

template <typename T, typename C, int kLength>
__device__ __forceinline__ void StoreAs(void *data, int64_t offset, const C (&values)[kLength]) {
    T *const to = static_cast<T *>(data) + offset;
    if constexpr (kLength == 1) {
        *to = Convert<T>(values[0]);
    } else {
        Vec<T, kLength> group;
#pragma unroll
        for (int i = 0; i < kLength; ++i) {
            group[i] = Convert<T>(values[i]);
        }
        group.Store(to);
    }
}

}  // namespace internal

#define INFINI_TRAIN_DEVICE_TYPES(V) \
    V(uint8_t, kUINT8)               \
    V(int8_t, kINT8)                 \
    V(uint16_t, kUINT16)             \
    V(int16_t, kINT16)               \
    V(uint32_t, kUINT32)             \
    V(int32_t, kINT32)               \
    V(uint64_t, kUINT64)             \
    V(int64_t, kINT64)               \
    V(__nv_bfloat16, kBFLOAT16)      \
    V(__half, kFLOAT16)              \
    V(float, kFLOAT32)               \
    V(double, kFLOAT64)              \
    V(bool, kBOOL)

/// values = data[offset], ..., converted. A group must be aligned to its size, or to 16 bytes if it is larger.
template <typename C, int kLength>
__device__ __forceinline__ void LoadGroup(const void *data, DataType dtype, int64_t offset, C (&values)[kLength]) {
    switch (dtype) {
#define INFINI_TRAIN_CASE(T, name)                                    \
    case DataType::name:                                              \
        if constexpr (kLength == 1 || HasGroups<C>(DataType::name)) { \
            internal::LoadAs<T>(data, offset, values);                \
        }                                                             \
        break;
        INFINI_TRAIN_DEVICE_TYPES(INFINI_TRAIN_CASE)
#undef INFINI_TRAIN_CASE
    }
}

/// The reverse.
template <typename C, int kLength>
__device__ __forceinline__ void StoreGroup(void *data, DataType dtype, int64_t offset, const C (&values)[kLength]) {
    switch (dtype) {
#define INFINI_TRAIN_CASE(T, name)                                    \
    case DataType::name:                                              \
        if constexpr (kLength == 1 || HasGroups<C>(DataType::name)) { \
            internal::StoreAs<T>(data, offset, values);               \
        }                                                             \
        break;
        INFINI_TRAIN_DEVICE_TYPES(INFINI_TRAIN_CASE)
#undef INFINI_TRAIN_CASE
    }
}

#undef INFINI_TRAIN_DEVICE_TYPES

/// Calls `body` with the type that elements of `dtype` go through when they are converted without a loss: float,
/// double, int64_t or uint64_t.
template <typename F>
void VisitWide(DataType dtype, F &&body) {
    switch (dtype) {
        case DataType::kFLOAT32:
        case DataType::kBFLOAT16:
        case DataType::kFLOAT16:
            return body(std::type_identity<float>{});
        case DataType::kFLOAT64:
            return body(std::type_identity<double>{});
        case DataType::kUINT64:
            return body(std::type_identity<uint64_t>{});
        default:
            return body(std::type_identity<int64_t>{});
    }
}

}  // namespace infini_train::cuda
