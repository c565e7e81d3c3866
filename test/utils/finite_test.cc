// The kernel that looks for values that aren't finite.

#include "infini_train/src/tensor/finite.h"

#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/tensor.h"

namespace infini_train {
namespace {

using kernels::kHasNan;
using kernels::kHasNegativeInf;
using kernels::kHasPositiveInf;

constexpr DataType kFloats[] = {DataType::kBFLOAT16, DataType::kFLOAT16, DataType::kFLOAT32, DataType::kFLOAT64};
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

int Kinds(const std::vector<double> &values, DataType dtype) {
    return FindNonFinite(Tensor::FromVector(values)->To(dtype).get());
}

TEST(FindNonFinite, KindsOfEachDataType) {
    for (const DataType dtype : kFloats) {
        SCOPED_TRACE(ToString(dtype));
        EXPECT_EQ(Kinds({0, -0.0, 1, -1, 65504, -65504, 6e-8}, dtype), 0);
        EXPECT_EQ(Kinds({1, kNan}, dtype), kHasNan);
        EXPECT_EQ(Kinds({-kNan, 1}, dtype), kHasNan);
        EXPECT_EQ(Kinds({1, kInf}, dtype), kHasPositiveInf);
        EXPECT_EQ(Kinds({-kInf, 2}, dtype), kHasNegativeInf);
        EXPECT_EQ(Kinds({kInf, kNan, 0, -kInf}, dtype), kHasNan | kHasPositiveInf | kHasNegativeInf);
    }
    EXPECT_EQ(Kinds({1e30}, DataType::kFLOAT16), kHasPositiveInf);
    EXPECT_EQ(
        Kinds({std::numeric_limits<double>::max(), std::numeric_limits<double>::denorm_min()}, DataType::kFLOAT64), 0);
    EXPECT_EQ(Kinds({1, 2}, DataType::kINT64), 0);
    EXPECT_EQ(Kinds({}, DataType::kFLOAT32), 0);
    EXPECT_EQ(FindNonFinite(nullptr), 0);
}

TEST(FindNonFinite, OneElementAmongManyWhereverItIs) {
    constexpr int64_t kCount = 3 * (1 << 16) + 5;
    for (const int64_t position : {int64_t{0}, int64_t{4095}, int64_t{4096}, int64_t{1 << 16}, kCount - 1}) {
        const auto x = Tensor::Zeros({kCount});
        x->Data<float>()[position] = static_cast<float>(-kInf);
        EXPECT_EQ(FindNonFinite(x.get()), kHasNegativeInf) << position;
    }
}

TEST(FindNonFinite, ViewsSeeTheirOwnElementsOnly) {
    const auto x = Tensor::Zeros({3, 4});
    x->Data<float>()[5] = static_cast<float>(kNan);  // [1][1]
    EXPECT_EQ(FindNonFinite(x->Slice(1, 1, 2).get()), kHasNan);
    EXPECT_EQ(FindNonFinite(x->Slice(1, 2, 4).get()), 0);
    EXPECT_EQ(FindNonFinite(x->Slice(1, 0, 4, 2).get()), 0);
    EXPECT_EQ(FindNonFinite(x->Transpose(0, 1).get()), kHasNan);
    EXPECT_EQ(FindNonFinite(x->Select(0, 1)->Select(0, 1).get()), kHasNan);
    EXPECT_EQ(FindNonFinite(x->Select(0, 1)->Unsqueeze(1)->Expand({4, 1000}).get()), kHasNan);
}

TEST(FindNonFinite, Describe) {
    EXPECT_EQ(DescribeNonFinite(kHasNan), "nan");
    EXPECT_EQ(DescribeNonFinite(kHasNegativeInf), "-inf");
    EXPECT_EQ(DescribeNonFinite(kHasNan | kHasPositiveInf | kHasNegativeInf), "nan, inf and -inf");
}

}  // namespace
}  // namespace infini_train
