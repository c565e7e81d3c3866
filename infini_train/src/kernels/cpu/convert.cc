#include "infini_train/src/kernels/cpu/convert.h"

#include <cstring>
#include <limits>
#include <type_traits>

#include "infini_train/src/kernels/cpu/independent_loop.h"
#include "infini_train/src/kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "infini_train/src/kernels/cpu/convert.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

template <typename To, typename From>
HWY_INLINE To ConvertOne(From value) {
    if constexpr (std::is_same_v<From, BFloat16> || std::is_same_v<From, Float16>) {
        return ConvertOne<To>(static_cast<float>(value));
    } else if constexpr (std::is_same_v<To, BFloat16> || std::is_same_v<To, Float16>) {
        return To(static_cast<float>(value));
    } else if constexpr (std::is_same_v<To, bool>) {
        return value != 0;
    } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
        // As a float the upper limit may round up to a power of two, hence >=.
        constexpr From kMax = static_cast<From>(std::numeric_limits<To>::max());
        constexpr From kMin = static_cast<From>(std::numeric_limits<To>::min());
        const To limited = value >= kMax    ? std::numeric_limits<To>::max()
                           : value <= kMin  ? std::numeric_limits<To>::min()
                           : value == value ? static_cast<To>(value)
                                            : To{0};
        return limited;
    } else {
        return static_cast<To>(value);
    }
}

template <typename From, typename To>
void Convert(const void *input, void *output, int64_t n) {
    if constexpr (std::is_same_v<From, To>) {
        std::memcpy(output, input, static_cast<size_t>(n) * sizeof(To));
    } else {
        const auto *from = static_cast<const From *>(input);
        auto *to = static_cast<To *>(output);
        INFINI_TRAIN_INDEPENDENT_LOOP
        for (int64_t i = 0; i < n; ++i) {
            to[i] = ConvertOne<To>(from[i]);
        }
    }
}

template <typename From>
Converter ConverterFrom(DataType to) {
    switch (to) {
#define INFINI_TRAIN_CASE(T, name) \
    case DataType::name:           \
        return &Convert<From, T>;
        INFINI_TRAIN_FOR_EACH_DATA_TYPE(INFINI_TRAIN_CASE)
#undef INFINI_TRAIN_CASE
    }
    return nullptr;
}

template <typename To>
Converter ConverterTo(DataType from) {
    switch (from) {
#define INFINI_TRAIN_CASE(T, name) \
    case DataType::name:           \
        return &Convert<T, To>;
        INFINI_TRAIN_FOR_EACH_DATA_TYPE(INFINI_TRAIN_CASE)
#undef INFINI_TRAIN_CASE
    }
    return nullptr;
}

Converter FindConverter(DataType from, DataType to) {
    switch (from) {
        case DataType::kFLOAT32:
            return ConverterFrom<float>(to);
        case DataType::kFLOAT64:
            return ConverterFrom<double>(to);
        case DataType::kINT64:
            return ConverterFrom<int64_t>(to);
        case DataType::kUINT64:
            return ConverterFrom<uint64_t>(to);
        default:
            break;
    }
    switch (to) {
        case DataType::kFLOAT32:
            return ConverterTo<float>(from);
        case DataType::kFLOAT64:
            return ConverterTo<double>(from);
        case DataType::kINT64:
            return ConverterTo<int64_t>(from);
        case DataType::kUINT64:
            return ConverterTo<uint64_t>(from);
        default:
            return nullptr;
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace infini_train::cpu {

HWY_EXPORT(FindConverter);

namespace {

template <typename T>
void GatherAs(const void *input, int64_t stride, void *output, int64_t n) {
    const auto *from = static_cast<const char *>(input);
    auto *to = static_cast<char *>(output);
    for (int64_t i = 0; i < n; ++i) {
        std::memcpy(to + i * static_cast<int64_t>(sizeof(T)), from + i * stride, sizeof(T));
    }
}

template <typename T>
void ScatterAs(const void *input, void *output, int64_t stride, int64_t n) {
    const auto *from = static_cast<const char *>(input);
    auto *to = static_cast<char *>(output);
    for (int64_t i = 0; i < n; ++i) {
        std::memcpy(to + i * stride, from + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    }
}

void ConvertChunk(const void *input, DataType from, void *output, DataType to, int64_t n) {
    if (IsPlainCopy(from, to)) {
        std::memcpy(output, input, static_cast<size_t>(n) * SizeOf(to));
    } else if (const Converter direct = GetConverter(from, to)) {
        direct(input, output, n);
    } else {
        ChunkBuffer wide;
        const DataType between = WideType(from);
        GetConverter(from, between)(input, wide.bytes, n);
        GetConverter(between, to)(wide.bytes, output, n);
    }
}

}  // namespace

bool IsPlainCopy(DataType from, DataType to) {
    return from == to || (IsIntegral(from) && IsIntegral(to) && SizeOf(from) == SizeOf(to));
}

Converter GetConverter(DataType from, DataType to) {
    return HWY_DYNAMIC_DISPATCH(FindConverter)(from, to);
}

DataType WideType(DataType dtype) {
    switch (dtype) {
        case DataType::kFLOAT16:
        case DataType::kBFLOAT16:
        case DataType::kFLOAT32:
            return DataType::kFLOAT32;
        case DataType::kFLOAT64:
        case DataType::kUINT64:
            return dtype;
        default:
            return DataType::kINT64;
    }
}

void Gather(const void *input, int64_t stride, void *output, int64_t n, int64_t size) {
    switch (size) {
        case 1:
            return GatherAs<uint8_t>(input, stride, output, n);
        case 2:
            return GatherAs<uint16_t>(input, stride, output, n);
        case 4:
            return GatherAs<uint32_t>(input, stride, output, n);
        default:
            return GatherAs<uint64_t>(input, stride, output, n);
    }
}

void Scatter(const void *input, void *output, int64_t stride, int64_t n, int64_t size) {
    switch (size) {
        case 1:
            return ScatterAs<uint8_t>(input, output, stride, n);
        case 2:
            return ScatterAs<uint16_t>(input, output, stride, n);
        case 4:
            return ScatterAs<uint32_t>(input, output, stride, n);
        default:
            return ScatterAs<uint64_t>(input, output, stride, n);
    }
}

void LoadConverted(const void *input, int64_t stride, DataType from, void *output, DataType to, int64_t n) {
    const auto size = static_cast<int64_t>(SizeOf(from));
    if (stride == size) {
        ConvertChunk(input, from, output, to, n);
    } else if (IsPlainCopy(from, to)) {
        Gather(input, stride, output, n, size);
    } else {
        ChunkBuffer gathered;
        Gather(input, stride, gathered.bytes, n, size);
        ConvertChunk(gathered.bytes, from, output, to, n);
    }
}

void StoreConverted(const void *input, DataType from, void *output, int64_t stride, DataType to, int64_t n) {
    const auto size = static_cast<int64_t>(SizeOf(to));
    if (stride == size) {
        ConvertChunk(input, from, output, to, n);
    } else if (IsPlainCopy(from, to)) {
        Scatter(input, output, stride, n, size);
    } else {
        ChunkBuffer converted;
        ConvertChunk(input, from, converted.bytes, to, n);
        Scatter(converted.bytes, output, stride, n, size);
    }
}

}  // namespace infini_train::cpu
#endif
