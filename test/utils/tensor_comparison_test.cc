// How far tensors are apart; the numbers of PyTorch's assert_close and cosine_similarity, or worked out by hand.

#include "infini_train/include/utils/tensor_comparison.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/tensor.h"

#include "test/support/tensors.h"

namespace infini_train {
namespace {

using test::Of;
using test::Thrown;
using utils::CompareTensors;
using utils::TensorDifference;
using utils::UlpDistance;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TensorPtr Doubles(const std::vector<double> &values) {
    return Tensor::FromVector(values);
}

// torch.testing.assert_close: 2 of 4 mismatched, greatest absolute difference 0.5, relative 0.25 at index (1,).
TEST(CompareTensors, NumbersOfAssertClose) {
    const TensorDifference difference = CompareTensors(*Doubles({1, 2, 3, -4}), *Doubles({1, 2.5, 3, -4.5}));
    EXPECT_FALSE(difference.within);
    EXPECT_FALSE(difference.identical);
    EXPECT_EQ(difference.count, 4);
    EXPECT_EQ(difference.outside, 2);
    EXPECT_EQ(difference.max_abs, 0.5);
    EXPECT_EQ(difference.max_rel, 0.25);
    EXPECT_NEAR(difference.cosine, 0.997256510605574, 1e-15);
    EXPECT_EQ(difference.max_ulp, uint64_t{1} << 50);  // 2 to 2.5: a quarter of the 2^52 numbers from 2 to 4
    EXPECT_EQ(difference.worst, (std::vector<int64_t>{1}));
    EXPECT_EQ(difference.worst_baseline, 2);
    EXPECT_EQ(difference.worst_other, 2.5);
}

TEST(CompareTensors, WithinTheToleranceOfTheCoarserType) {
    const float next = std::nextafter(1.0F, 2.0F);
    const TensorDifference close = CompareTensors(*Of({1, 2}), *Of({next, 2}));
    EXPECT_TRUE(close.within);
    EXPECT_FALSE(close.identical);
    EXPECT_EQ(close.max_ulp, 1U);
    EXPECT_EQ(close.outside, 0);
    EXPECT_EQ(close.worst, (std::vector<int64_t>{0}));
    EXPECT_FALSE(CompareTensors(*Of({1, 2}), *Of({next, 2}), utils::Tolerance{}).within);
    // 1 + 2^-7 is bfloat16's next number after 1; float32's tolerance is far below, bfloat16's above.
    EXPECT_FALSE(CompareTensors(*Of({1}), *Of({1.0078125F})).within);
    const TensorDifference mixed = CompareTensors(*Of({1}), *Of({1.0078125F})->To(DataType::kBFLOAT16));
    EXPECT_TRUE(mixed.within);
    EXPECT_EQ(mixed.max_ulp, 1U);
    EXPECT_EQ(utils::DefaultTolerance(DataType::kFLOAT16).rtol, 1e-3);
    EXPECT_EQ(utils::DefaultTolerance(DataType::kFLOAT64).atol, 1e-7);
    EXPECT_EQ(utils::DefaultTolerance(DataType::kINT32).atol, 0);
}

TEST(CompareTensors, WorstElementOfAMatrixIsWhatExceedsItsToleranceByMost) {
    const auto baseline = Of({1000, 1, 1, 1, 1, 1}, {2, 3});
    const auto other = Of({1000.5F, 1, 1, 1, 1, 1.25F}, {2, 3});
    const TensorDifference difference = CompareTensors(*baseline, *other, utils::Tolerance{1e-3, 0});
    EXPECT_EQ(difference.outside, 1);
    EXPECT_EQ(difference.max_abs, 0.5);
    EXPECT_EQ(difference.worst, (std::vector<int64_t>{1, 2}));
    EXPECT_EQ(CompareTensors(*baseline->Transpose(0, 1), *other->Transpose(0, 1), utils::Tolerance{1e-3, 0}).worst,
              (std::vector<int64_t>{2, 1}));
}

TEST(CompareTensors, WhatIsNotFinite) {
    const TensorDifference same = CompareTensors(*Doubles({kNan, kInf, -kInf, 1}), *Doubles({kNan, kInf, -kInf, 1}));
    EXPECT_TRUE(same.within && same.identical);
    EXPECT_EQ(same.cosine, 1);
    for (const auto &[baseline, other] :
         std::vector<std::pair<double, double>>{{1, kNan}, {kNan, 1}, {kInf, 1}, {1, -kInf}, {kInf, -kInf}}) {
        const TensorDifference difference = CompareTensors(*Doubles({baseline, 2}), *Doubles({other, 2}));
        EXPECT_FALSE(difference.within);
        EXPECT_EQ(difference.outside, 1);
        EXPECT_EQ(difference.max_abs, kInf);
        EXPECT_EQ(difference.worst, (std::vector<int64_t>{0}));
    }
    EXPECT_EQ(CompareTensors(*Doubles({0, 0}), *Doubles({0, 0})).cosine, 1);
    EXPECT_EQ(CompareTensors(*Doubles({0, 0}), *Doubles({0, 1})).cosine, 0);
    EXPECT_EQ(CompareTensors(*Doubles({0, 0}), *Doubles({0, 1})).max_rel, 0);
    EXPECT_NEAR(CompareTensors(*Doubles({1, -1}), *Doubles({-1, 1})).cosine, -1, 1e-15);
}

TEST(CompareTensors, IntegersExactlyBeyondTheReachOfDoubles) {
    const int64_t large = (int64_t{1} << 53);
    const TensorDifference difference =
        CompareTensors(*Tensor::FromVector<int64_t>({large, 5}), *Tensor::FromVector<int64_t>({large + 1, 5}));
    EXPECT_FALSE(difference.within);
    EXPECT_EQ(difference.max_abs, 1);
    EXPECT_EQ(difference.max_ulp, 0U);
    const uint64_t top = std::numeric_limits<uint64_t>::max();
    EXPECT_EQ(CompareTensors(*Tensor::FromVector<uint64_t>({top}), *Tensor::FromVector<uint64_t>({top - 1})).max_abs,
              1);
    EXPECT_FALSE(CompareTensors(*Tensor::FromVector<bool>({true}), *Tensor::FromVector<bool>({false})).within);
    EXPECT_TRUE(CompareTensors(*Tensor::Zeros({0}), *Tensor::Zeros({0})).identical);
}

TEST(CompareTensors, OtherShapes) {
    const TensorDifference difference = CompareTensors(*Tensor::Zeros({2, 3}), *Tensor::Zeros({3, 2}));
    EXPECT_FALSE(difference.within || difference.identical);
    EXPECT_EQ(difference.mismatch, "(2, 3) against (3, 2)");
}

TEST(UlpDistance, CountsTheNumbersBetween) {
    EXPECT_EQ(UlpDistance(1, 1, DataType::kFLOAT32), 0U);
    EXPECT_EQ(UlpDistance(0.0, -0.0, DataType::kFLOAT32), 0U);
    EXPECT_EQ(UlpDistance(1, std::nextafter(1.0, 2.0), DataType::kFLOAT64), 1U);
    EXPECT_EQ(UlpDistance(1, std::nextafter(1.0, 2.0), DataType::kFLOAT32), 0U);
    EXPECT_EQ(UlpDistance(1, 2, DataType::kFLOAT32), 1U << 23);
    EXPECT_EQ(UlpDistance(1, 2, DataType::kBFLOAT16), 1U << 7);
    EXPECT_EQ(UlpDistance(2, 1, DataType::kFLOAT16), 1U << 10);
    const float tiny = std::numeric_limits<float>::denorm_min();
    EXPECT_EQ(UlpDistance(tiny, -tiny, DataType::kFLOAT32), 2U);
    const double large = std::numeric_limits<double>::max();
    EXPECT_EQ(UlpDistance(-large, large, DataType::kFLOAT64), 2 * 0x7fefffffffffffffU);
    EXPECT_EQ(UlpDistance(kNan, kNan, DataType::kFLOAT32), 0U);
    EXPECT_EQ(UlpDistance(kNan, 1, DataType::kFLOAT32), std::numeric_limits<uint64_t>::max());
    EXPECT_FALSE(Thrown<DtypeError>([] { UlpDistance(1, 2, DataType::kINT32); }).empty());
}

}  // namespace
}  // namespace infini_train
