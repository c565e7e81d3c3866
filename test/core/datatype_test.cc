#include "infini_train/include/datatype.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/dtype_dispatch.h"

namespace infini_train {
namespace {

// The textbook reading of a 16-bit floating-point pattern, in double arithmetic.
template <typename T>
struct Format;
template <>
struct Format<BFloat16> {
    static constexpr int kMantissaBits = 7;
    static constexpr int kBias = 127;
};
template <>
struct Format<Float16> {
    static constexpr int kMantissaBits = 10;
    static constexpr int kBias = 15;
};

template <typename T>
double Magnitude(uint32_t bits) {
    constexpr int kMantissaBits = Format<T>::kMantissaBits;
    const int exponent = static_cast<int>(bits >> kMantissaBits);
    const double fraction = std::ldexp(static_cast<double>(bits & ((1U << kMantissaBits) - 1)), -kMantissaBits);
    return exponent == 0 ? std::ldexp(fraction, 1 - Format<T>::kBias)
                         : std::ldexp(1 + fraction, exponent - Format<T>::kBias);
}

template <typename T>
constexpr uint32_t InfinityBits() {
    return 0x7fffU >> Format<T>::kMantissaBits << Format<T>::kMantissaBits;
}

template <typename T>
T FromBits(uint32_t bits) {
    T value;
    value.bits = static_cast<uint16_t>(bits);
    return value;
}

// Rounds by search among all magnitudes; the one after the largest stands for infinity, as IEEE 754 has it.
template <typename T>
class NearestByTable {
public:
    NearestByTable() {
        for (uint32_t bits = 0; bits <= InfinityBits<T>(); ++bits) {
            magnitudes_.push_back(Magnitude<T>(bits));
        }
    }
    uint16_t operator()(float value) const {
        const double magnitude = std::fabs(static_cast<double>(value));
        const auto above = std::upper_bound(magnitudes_.begin(), magnitudes_.end(), magnitude);
        auto bits = static_cast<uint32_t>(above - magnitudes_.begin());
        if (above != magnitudes_.begin()) {
            const double below_gap = magnitude - *(above - 1);
            const double above_gap = above == magnitudes_.end() ? INFINITY : *above - magnitude;
            const bool take_below = below_gap < above_gap || (below_gap == above_gap && (bits - 1) % 2 == 0);
            bits -= take_below ? 1 : 0;
        }
        return static_cast<uint16_t>(bits | (std::signbit(value) ? 0x8000U : 0U));
    }
    double operator[](size_t bits) const { return magnitudes_[bits]; }

private:
    std::vector<double> magnitudes_;
};

template <typename T>
class Float16BitTest : public testing::Test {};
using SixteenBitTypes = testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(Float16BitTest, SixteenBitTypes);

TYPED_TEST(Float16BitTest, EveryPatternConvertsToFloatAndBack) {
    for (uint32_t bits = 0; bits < 0x10000U; ++bits) {
        const auto value = FromBits<TypeParam>(bits);
        const auto wide = static_cast<float>(value);
        const uint32_t magnitude = bits & 0x7fffU;
        ASSERT_EQ(std::signbit(wide), bits >= 0x8000U) << bits;
        if (magnitude > InfinityBits<TypeParam>()) {
            ASSERT_TRUE(std::isnan(wide)) << bits;
            ASSERT_TRUE(std::isnan(static_cast<float>(TypeParam(wide)))) << bits;
            continue;
        }
        const double expected = magnitude == InfinityBits<TypeParam>() ? INFINITY : Magnitude<TypeParam>(magnitude);
        ASSERT_EQ(std::fabs(static_cast<double>(wide)), expected) << bits;
        ASSERT_EQ(TypeParam(wide).bits, bits);
    }
}

TYPED_TEST(Float16BitTest, RoundsToNearestEvenAroundEveryMidpoint) {
    const NearestByTable<TypeParam> nearest;
    for (uint32_t bits = 0; bits < InfinityBits<TypeParam>(); ++bits) {
        const auto middle = static_cast<float>((nearest[bits] + nearest[bits + 1]) / 2);
        for (const float value : {middle, std::nextafter(middle, 0.0F), std::nextafter(middle, INFINITY)}) {
            ASSERT_EQ(TypeParam(value).bits, nearest(value)) << value;
            ASSERT_EQ(TypeParam(-value).bits, nearest(-value)) << -value;
        }
    }
}

TYPED_TEST(Float16BitTest, RoundsRandomFloats) {
    const NearestByTable<TypeParam> nearest;
    std::mt19937 random(1);
    for (int i = 0; i < 200000; ++i) {
        const auto value = std::bit_cast<float>(static_cast<uint32_t>(random()));
        if (std::isfinite(value)) {
            ASSERT_EQ(TypeParam(value).bits, nearest(value)) << value;
        }
    }
}

TYPED_TEST(Float16BitTest, KeepsInfinityAndNan) {
    EXPECT_EQ(TypeParam(INFINITY).bits, InfinityBits<TypeParam>());
    EXPECT_EQ(TypeParam(-INFINITY).bits, InfinityBits<TypeParam>() | 0x8000U);
    // A NaN whose payload lies in the lower bits alone must not be rounded to infinity.
    for (const uint32_t bits : {0x7f800001U, 0x7fc00000U, 0x7fffffffU, 0xff800001U, 0xffffffffU}) {
        const TypeParam value(std::bit_cast<float>(bits));
        EXPECT_TRUE(std::isnan(static_cast<float>(value))) << bits;
        EXPECT_EQ(value.bits >> 15, bits >> 31);
    }
}

TEST(Float16Test, OverflowsFrom65520) {
    EXPECT_EQ(static_cast<float>(Float16(65519.0F)), 65504.0F);
    EXPECT_EQ(static_cast<float>(Float16(65520.0F)), INFINITY);
    static_assert(Float16(1.0F).bits == 0x3c00);
    static_assert(BFloat16(1.0F).bits == 0x3f80);
}

constexpr DataType kAll[kNumDataTypes] = {
    DataType::kUINT8,   DataType::kINT8,    DataType::kUINT16, DataType::kINT16,    DataType::kUINT32,
    DataType::kINT32,   DataType::kUINT64,  DataType::kINT64,  DataType::kBFLOAT16, DataType::kFLOAT16,
    DataType::kFLOAT32, DataType::kFLOAT64, DataType::kBOOL};

TEST(DataTypeTest, NamesSizesAndKinds) {
    const char *const names[] = {"uint8", "int8",     "uint16",  "int16",   "uint32",  "int32", "uint64",
                                 "int64", "bfloat16", "float16", "float32", "float64", "bool"};
    for (int i = 0; i < kNumDataTypes; ++i) {
        EXPECT_EQ(static_cast<int>(kAll[i]), i);
        EXPECT_EQ(ToString(kAll[i]), names[i]);
        DispatchDtype(kAll[i], [&]<typename T>() {
            EXPECT_EQ(kDataTypeOf<T>, kAll[i]);
            EXPECT_EQ(kDataTypeOf<const T>, kAll[i]);
            EXPECT_EQ(SizeOf(kAll[i]), sizeof(T));
            constexpr bool kHalf = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;
            EXPECT_EQ(IsFloatingPoint(kAll[i]), kHalf || std::is_floating_point_v<T>);
            EXPECT_EQ(IsIntegral(kAll[i]), std::is_integral_v<T> && !(std::is_same_v<T, bool>));
        });
    }
}

TEST(DataTypeTest, DispatchesByKind) {
    const auto size = []<typename T>() { return sizeof(T); };
    for (const DataType dtype : kAll) {
        if (IsFloatingPoint(dtype)) {
            EXPECT_EQ(DispatchFloatingDtype(dtype, "Op", size), SizeOf(dtype));
        } else {
            EXPECT_THROW(DispatchFloatingDtype(dtype, "Op", size), DtypeError);
        }
        if (IsIntegral(dtype)) {
            EXPECT_EQ(DispatchIntegralDtype(dtype, "Op", size), SizeOf(dtype));
        } else {
            EXPECT_THROW(DispatchIntegralDtype(dtype, "Op", size), DtypeError);
        }
    }
    try {
        DispatchFloatingDtype(DataType::kBOOL, "Gelu", size);
        FAIL();
    } catch (const DtypeError &error) {
        EXPECT_STREQ(error.what(), "Gelu: expected a floating-point tensor, got bool");
    }
    EXPECT_THROW(DispatchDtype(static_cast<DataType>(99), size), InternalError);
    EXPECT_EQ(ToString(static_cast<DataType>(99)), "DataType(99)");
}

// torch.promote_types of PyTorch 2.15 for all pairs, in the order of kAll: the index of the result, or -- for an error.
constexpr const char *kPromotion[kNumDataTypes] = {
    "00 03 -- 03 -- 05 -- 07 08 09 10 11 00",  // uint8
    "03 01 -- 03 -- 05 -- 07 08 09 10 11 01",  // int8
    "-- -- 02 -- -- -- -- -- 08 09 10 11 --",  // uint16
    "03 03 -- 03 -- 05 -- 07 08 09 10 11 03",  // int16
    "-- -- -- -- 04 -- -- -- 08 09 10 11 --",  // uint32
    "05 05 -- 05 -- 05 -- 07 08 09 10 11 05",  // int32
    "-- -- -- -- -- -- 06 -- 08 09 10 11 --",  // uint64
    "07 07 -- 07 -- 07 -- 07 08 09 10 11 07",  // int64
    "08 08 08 08 08 08 08 08 08 10 10 11 08",  // bfloat16
    "09 09 09 09 09 09 09 09 10 09 10 11 09",  // float16
    "10 10 10 10 10 10 10 10 10 10 10 11 10",  // float32
    "11 11 11 11 11 11 11 11 11 11 11 11 11",  // float64
    "00 01 -- 03 -- 05 -- 07 08 09 10 11 12",  // bool
};

TEST(DataTypeTest, PromotesAsPyTorchDoes) {
    for (int i = 0; i < kNumDataTypes; ++i) {
        for (int j = 0; j < kNumDataTypes; ++j) {
            const std::string cell(kPromotion[i] + j * 3, 2);
            if (cell == "--") {
                EXPECT_THROW(PromoteTypes(kAll[i], kAll[j]), DtypeError) << i << " " << j;
            } else {
                EXPECT_EQ(PromoteTypes(kAll[i], kAll[j]), kAll[std::stoi(cell)]) << i << " " << j;
            }
        }
    }
}

}  // namespace
}  // namespace infini_train
