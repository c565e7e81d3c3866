#include "infini_train/include/scalar.h"

#include <cmath>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

namespace infini_train {
namespace {

constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();
constexpr int64_t kMinInt64 = std::numeric_limits<int64_t>::min();
constexpr uint64_t kMaxUInt64 = std::numeric_limits<uint64_t>::max();

TEST(ScalarTest, KeepsTheKind) {
    EXPECT_EQ(Scalar().kind(), Scalar::Kind::kInt);
    EXPECT_EQ(Scalar(true).kind(), Scalar::Kind::kBool);
    EXPECT_EQ(Scalar(int8_t{1}).kind(), Scalar::Kind::kInt);
    EXPECT_EQ(Scalar(1U).kind(), Scalar::Kind::kUInt);
    EXPECT_EQ(Scalar(1.0F).kind(), Scalar::Kind::kDouble);
    EXPECT_EQ(Scalar(BFloat16(1.5F)).To<double>(), 1.5);
    EXPECT_EQ(Scalar(Float16(1.5F)).To<double>(), 1.5);
    EXPECT_TRUE(Scalar(0.0).IsFloatingPoint());
    EXPECT_FALSE(Scalar(0).IsFloatingPoint());
}

TEST(ScalarTest, PromotesAsItsKind) {
    EXPECT_EQ(Scalar(false).Dtype(), DataType::kBOOL);
    EXPECT_EQ(Scalar(1).Dtype(), DataType::kINT64);
    EXPECT_EQ(Scalar(uint8_t{1}).Dtype(), DataType::kUINT64);
    EXPECT_EQ(Scalar(1.0F).Dtype(), DataType::kFLOAT64);
}

TEST(ScalarTest, KeepsAll64Bits) {
    EXPECT_EQ(Scalar(kMaxInt64).To<int64_t>(), kMaxInt64);
    EXPECT_EQ(Scalar(kMinInt64).To<int64_t>(), kMinInt64);
    EXPECT_EQ(Scalar(kMaxUInt64).To<uint64_t>(), kMaxUInt64);
    EXPECT_EQ(Scalar(kMaxUInt64 - 1).To<uint64_t>(), kMaxUInt64 - 1);
    EXPECT_EQ(Scalar((int64_t{1} << 53) + 1).To<int64_t>(), (int64_t{1} << 53) + 1);
}

TEST(ScalarTest, ConvertsIntegersAsStaticCastDoes) {
    EXPECT_EQ(Scalar(300).To<uint8_t>(), 44);
    EXPECT_EQ(Scalar(-1).To<uint64_t>(), kMaxUInt64);
    EXPECT_EQ(Scalar(kMaxUInt64).To<int64_t>(), -1);
    EXPECT_EQ(Scalar(256).To<bool>(), true);
    EXPECT_EQ(Scalar(0U).To<bool>(), false);
    EXPECT_EQ(Scalar(true).To<float>(), 1.0F);
    EXPECT_EQ(Scalar(kMaxUInt64).To<double>(), 0x1p64);
    EXPECT_EQ(static_cast<float>(Scalar(3).To<BFloat16>()), 3.0F);
    EXPECT_EQ(static_cast<float>(Scalar(1e6).To<Float16>()), INFINITY);
}

TEST(ScalarTest, TruncatesAndSaturatesFloats) {
    EXPECT_EQ(Scalar(2.9).To<int>(), 2);
    EXPECT_EQ(Scalar(-2.9).To<int>(), -2);
    EXPECT_EQ(Scalar(-0.9).To<uint8_t>(), 0);
    EXPECT_EQ(Scalar(255.9).To<uint8_t>(), 255);
    EXPECT_EQ(Scalar(254.9).To<uint8_t>(), 254);
    EXPECT_EQ(Scalar(1e10).To<int32_t>(), std::numeric_limits<int32_t>::max());
    EXPECT_EQ(Scalar(-1e10).To<int32_t>(), std::numeric_limits<int32_t>::min());
    EXPECT_EQ(Scalar(-2147483648.5).To<int32_t>(), std::numeric_limits<int32_t>::min());
    EXPECT_EQ(Scalar(0x1p63).To<int64_t>(), kMaxInt64);
    EXPECT_EQ(Scalar(std::nextafter(0x1p63, 0)).To<int64_t>(), kMaxInt64 - 1023);
    EXPECT_EQ(Scalar(-0x1p63).To<int64_t>(), kMinInt64);
    EXPECT_EQ(Scalar(0x1p64).To<uint64_t>(), kMaxUInt64);
    EXPECT_EQ(Scalar(0x1p63).To<uint64_t>(), uint64_t{1} << 63);
    EXPECT_EQ(Scalar(-1.0).To<uint64_t>(), 0U);
    EXPECT_EQ(Scalar(INFINITY).To<int8_t>(), 127);
    EXPECT_EQ(Scalar(-INFINITY).To<int8_t>(), -128);
    EXPECT_EQ(Scalar(NAN).To<int64_t>(), 0);
    EXPECT_EQ(Scalar(NAN).To<bool>(), true);
    EXPECT_EQ(Scalar(0.5).To<bool>(), true);
    EXPECT_EQ(Scalar(1e300).To<float>(), INFINITY);
}

TEST(ScalarTest, Prints) {
    EXPECT_EQ(Scalar(2.5).ToString(), "2.5");
    EXPECT_EQ(Scalar(2.0).ToString(), "2.0");
    EXPECT_EQ(Scalar(1e300).ToString(), "1e+300");
    EXPECT_EQ(Scalar(NAN).ToString(), "nan");
    EXPECT_EQ(Scalar(-INFINITY).ToString(), "-inf");
    EXPECT_EQ(Scalar(-3).ToString(), "-3");
    EXPECT_EQ(Scalar(kMaxUInt64).ToString(), "18446744073709551615");
    EXPECT_EQ(Scalar(kMinInt64).ToString(), "-9223372036854775808");
    EXPECT_EQ(Scalar(true).ToString(), "true");
    EXPECT_EQ(Scalar(false).ToString(), "false");
}

}  // namespace
}  // namespace infini_train
