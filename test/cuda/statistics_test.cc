// Statistics of tensors on a GPU, emulated or not, against the CPU's.

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/tensor.h"
#include "infini_train/include/utils/tensor_statistics.h"

#include "test/cuda/gpu.h"

namespace infini_train {
namespace {

using utils::ComputeStatistics;
using utils::TensorStatistics;

class StatisticsOnGpu : public ::testing::Test {
protected:
    void SetUp() override { INFINI_TRAIN_NEEDS_GPU(); }
};

// NaN if both are.
void ExpectNear(double actual, double expected, double tolerance) {
    if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(actual)) << actual;
    } else {
        EXPECT_NEAR(actual, expected, tolerance);
    }
}

void ExpectEqual(const TensorStatistics &actual, const TensorStatistics &expected) {
    EXPECT_EQ(actual.count, expected.count);
    EXPECT_EQ(actual.zeros, expected.zeros);
    EXPECT_EQ(actual.nans, expected.nans);
    EXPECT_EQ(actual.infs, expected.infs);
    ExpectNear(actual.min, expected.min, 0);
    ExpectNear(actual.max, expected.max, 0);
    // On the CPU float32's squares are added up in float32.
    ExpectNear(actual.mean, expected.mean, 1e-6 * (std::abs(expected.mean) + expected.std));
    ExpectNear(actual.std, expected.std, 1e-5 * expected.std);
    ASSERT_EQ(actual.histogram.size(), expected.histogram.size());
    for (size_t i = 0; i < expected.histogram.size(); ++i) {
        EXPECT_EQ(actual.histogram[i].low, expected.histogram[i].low) << "bin " << i;
        EXPECT_EQ(actual.histogram[i].high, expected.histogram[i].high) << "bin " << i;
        EXPECT_EQ(actual.histogram[i].count, expected.histogram[i].count) << "bin " << i;
    }
}

void Compare(const TensorPtr &on_cpu, const TensorPtr &on_gpu) {
    ASSERT_TRUE(on_gpu->GetDevice().IsCUDA());
    for (const bool histogram : {false, true}) {
        SCOPED_TRACE(histogram ? "with a histogram" : "without a histogram");
        ExpectEqual(ComputeStatistics(*on_gpu, histogram), ComputeStatistics(*on_cpu, histogram));
    }
}

void Compare(const TensorPtr &on_cpu) {
    Compare(on_cpu, on_cpu->To(test::Gpu()));
}

TEST_F(StatisticsOnGpu, EveryDataType) {
    const TensorPtr values = Tensor::RandInt(0, 100, {3, 1001});
    for (const DataType dtype :
         {DataType::kUINT8, DataType::kINT8, DataType::kUINT16, DataType::kINT16, DataType::kUINT32, DataType::kINT32,
          DataType::kUINT64, DataType::kINT64, DataType::kBFLOAT16, DataType::kFLOAT16, DataType::kFLOAT32,
          DataType::kFLOAT64, DataType::kBOOL}) {
        SCOPED_TRACE(ToString(dtype));
        Compare(values->To(dtype));
    }
}

TEST_F(StatisticsOnGpu, LengthsAroundGroupsAndBlocks) {
    for (const int64_t length : {1, 2, 7, 8, 9, 255, 2047, 2048, 8191, 8193, 40000}) {
        SCOPED_TRACE(length);
        Compare(Tensor::Randn({length}));
    }
    Compare(Tensor::Randn({5001}, DataType::kFLOAT64));
    Compare(Tensor::Randn({5001}, DataType::kBFLOAT16));
}

TEST_F(StatisticsOnGpu, NothingAtAll) {
    const TensorStatistics of_nothing =
        ComputeStatistics(*Tensor::Empty({0, 3}, DataType::kFLOAT32, test::Gpu()), true);
    EXPECT_EQ(of_nothing.count, 0);
    EXPECT_EQ(of_nothing.Finite(), 0);
    EXPECT_TRUE(std::isnan(of_nothing.mean));
    EXPECT_TRUE(of_nothing.histogram.empty());
}

TEST_F(StatisticsOnGpu, AnyStrides) {
    const TensorPtr on_cpu = Tensor::Randn({20, 30, 7});
    const TensorPtr on_gpu = on_cpu->To(test::Gpu());
    Compare(on_cpu->Transpose(0, 2), on_gpu->Transpose(0, 2));
    Compare(on_cpu->Slice(1, 3, 20), on_gpu->Slice(1, 3, 20));
    Compare(on_cpu->Slice(0, 1, 20), on_gpu->Slice(0, 1, 20));  // adjacent, but not aligned
}

TEST_F(StatisticsOnGpu, UncommonNumbers) {
    constexpr float kInf = std::numeric_limits<float>::infinity();
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    const TensorPtr floats =
        Tensor::FromVector(std::vector<float>{0, -0.0F, kNan, kInf, -kInf, 3e38F, -3e38F, 1e-40F, 1, 2, kNan, -5});
    Compare(floats);
    Compare(Tensor::FromVector(std::vector<float>(9, kNan)));
    Compare(Tensor::FromVector(std::vector<float>(5000, 0.1F)));
    Compare(Tensor::FromVector(std::vector<double>{1e150, -1e-300, 1e39, -1e39, 0}));
}

TEST_F(StatisticsOnGpu, ValuesByHand) {
    const TensorPtr on_gpu = Tensor::FromVector(std::vector<float>{1, 2, 3, 4, 0, 0})->To(test::Gpu());
    const TensorStatistics s = ComputeStatistics(*on_gpu);
    EXPECT_EQ(s.count, 6);
    EXPECT_EQ(s.zeros, 2);
    EXPECT_EQ(s.min, 0);
    EXPECT_EQ(s.max, 4);
    EXPECT_NEAR(s.mean, 10.0 / 6, 1e-15);
    EXPECT_NEAR(s.std, std::sqrt(30.0 / 6 - 100.0 / 36), 1e-15);
}

// They are taken one by one. The standard deviation is out of range: the square is.
TEST_F(StatisticsOnGpu, DoublesWhoseSumOverflows) {
    const TensorPtr on_gpu = Tensor::FromVector(std::vector<double>(4, 1.5e308))->To(test::Gpu());
    const TensorStatistics s = ComputeStatistics(*on_gpu);
    EXPECT_EQ(s.Finite(), 4);
    EXPECT_EQ(s.mean, 1.5e308);
    EXPECT_EQ(s.min, 1.5e308);
    EXPECT_EQ(s.max, 1.5e308);
}

TEST_F(StatisticsOnGpu, NoResultDependsOnTheRun) {
    const TensorPtr on_gpu = Tensor::Randn({50000})->To(test::Gpu());
    const TensorStatistics first = ComputeStatistics(*on_gpu, true);
    const TensorStatistics second = ComputeStatistics(*on_gpu, true);
    EXPECT_EQ(first.mean, second.mean);
    EXPECT_EQ(first.std, second.std);
}

}  // namespace
}  // namespace infini_train
