#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "infini_train/include/common/export.h"

namespace infini_train {

/// The element types of a tensor. `kBOOL` is one byte that holds 0 or 1.
enum class DataType : int8_t {
    kUINT8,
    kINT8,
    kUINT16,
    kINT16,
    kUINT32,
    kINT32,
    kUINT64,
    kINT64,
    kBFLOAT16,
    kFLOAT16,
    kFLOAT32,
    kFLOAT64,
    kBOOL,
};
inline constexpr int kNumDataTypes = 13;

/// bfloat16: the upper half of a float32. Stored only; arithmetic converts to float.
struct BFloat16 {
    uint16_t bits = 0;

    BFloat16() = default;
    /// Rounds to nearest, ties to even; a NaN stays a (quiet) NaN.
    constexpr explicit BFloat16(float value) {
        const uint32_t x = std::bit_cast<uint32_t>(value);
        const uint32_t rounded = (x + 0x7fffU + ((x >> 16) & 1U)) >> 16;
        bits = static_cast<uint16_t>((x & 0x7fffffffU) > 0x7f800000U ? (x >> 16) | 0x40U : rounded);
    }
    constexpr explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

/// IEEE 754 binary16. Stored only; arithmetic converts to float.
struct Float16 {
    uint16_t bits = 0;

    Float16() = default;
    /// Rounds to nearest, ties to even; 65520 and above become infinity, a NaN stays a (quiet) NaN.
    constexpr explicit Float16(float value) {
        const uint32_t x = std::bit_cast<uint32_t>(value);
        const uint32_t magnitude = x & 0x7fffffffU;
        // Below 2^-14 the result is subnormal: adding 0.5 lets the float unit round at the right bit, 2^-24.
        const uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U;
        const uint32_t normal = (magnitude + 0xfffU + ((magnitude >> 13) & 1U) - (112U << 23)) >> 13;
        uint32_t half = magnitude < 0x38800000U ? small : normal;
        half = magnitude >= 0x477ff000U ? 0x7c00U : half;
        half = magnitude > 0x7f800000U ? 0x7e00U : half;
        bits = static_cast<uint16_t>(half | ((x >> 16) & 0x8000U));
    }
    constexpr explicit operator float() const {
        const uint32_t magnitude = bits & 0x7fffU;
        const float small = std::bit_cast<float>(0x3f000000U | magnitude) - 0.5F;
        const uint32_t rebias = magnitude >= 0x7c00U ? 224U << 23 : 112U << 23;
        const uint32_t normal = (magnitude << 13) + rebias;
        const uint32_t x = magnitude < 0x400U ? std::bit_cast<uint32_t>(small) : normal;
        return std::bit_cast<float>(x | (static_cast<uint32_t>(bits & 0x8000U) << 16));
    }
};

/// The size of one element in bytes.
constexpr size_t SizeOf(DataType dtype) {
    constexpr size_t kSizes[kNumDataTypes] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 1};
    return kSizes[static_cast<int>(dtype)];
}

/// `float32`, `int64`, `bool`, ...
INFINI_TRAIN_EXPORT std::string ToString(DataType dtype);

constexpr bool IsFloatingPoint(DataType dtype) {
    return dtype == DataType::kBFLOAT16 || dtype == DataType::kFLOAT16 || dtype == DataType::kFLOAT32 ||
           dtype == DataType::kFLOAT64;
}
/// Signed and unsigned integers; not bool.
constexpr bool IsIntegral(DataType dtype) {
    return !IsFloatingPoint(dtype) && dtype != DataType::kBOOL;
}

/// The type in which an operator of two tensors computes, by PyTorch's rules: bool < integers < floats; among integers
/// and among floats the wider; uint8 with int8 gives int16, bfloat16 with float16 gives float32. uint16, uint32 and
/// uint64 go with themselves and with floats only; with bool or another integer they throw DtypeError, as in PyTorch.
INFINI_TRAIN_EXPORT DataType PromoteTypes(DataType a, DataType b);

/// `DataTypeOf<float>::value` is kFLOAT32, and so on for every C++ type that a tensor can hold.
template <typename T>
struct DataTypeOf;
#define INFINI_TRAIN_FOR_EACH_DATA_TYPE(V) \
    V(uint8_t, kUINT8)                     \
    V(int8_t, kINT8)                       \
    V(uint16_t, kUINT16)                   \
    V(int16_t, kINT16)                     \
    V(uint32_t, kUINT32)                   \
    V(int32_t, kINT32)                     \
    V(uint64_t, kUINT64)                   \
    V(int64_t, kINT64)                     \
    V(::infini_train::BFloat16, kBFLOAT16) \
    V(::infini_train::Float16, kFLOAT16)   \
    V(float, kFLOAT32)                     \
    V(double, kFLOAT64)                    \
    V(bool, kBOOL)
#define INFINI_TRAIN_DATA_TYPE_OF(T, name)                \
    template <>                                           \
    struct DataTypeOf<T> {                                \
        static constexpr DataType value = DataType::name; \
    };
INFINI_TRAIN_FOR_EACH_DATA_TYPE(INFINI_TRAIN_DATA_TYPE_OF)
#undef INFINI_TRAIN_DATA_TYPE_OF
template <typename T>
inline constexpr DataType kDataTypeOf = DataTypeOf<std::remove_cv_t<T>>::value;

}  // namespace infini_train
