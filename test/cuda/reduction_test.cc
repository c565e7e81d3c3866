// Reductions on a GPU, emulated or not, against the CPU's: sizes at which elements are read in groups and results are
// made of parts.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/tensor.h"

#include "test/cuda/gpu.h"

namespace infini_train {
namespace {

class ReductionOnGpu : public ::testing::Test {
protected:
    void SetUp() override { INFINI_TRAIN_NEEDS_GPU(); }
};

std::vector<double> Values(const TensorPtr &tensor) {
    return tensor->To(Device())->To(DataType::kFLOAT64)->ToVector<double>();
}

void ExpectNear(const TensorPtr &on_gpu, const TensorPtr &on_cpu, double tolerance) {
    EXPECT_TRUE(on_gpu->GetDevice().IsCUDA());
    EXPECT_EQ(on_gpu->Dtype(), on_cpu->Dtype());
    ASSERT_EQ(on_gpu->Dims(), on_cpu->Dims());
    const std::vector<double> actual = Values(on_gpu);
    const std::vector<double> expected = Values(on_cpu);
    for (size_t i = 0; i < expected.size(); ++i) {
        if (std::isnan(expected[i])) {
            ASSERT_TRUE(std::isnan(actual[i])) << "element " << i;
        } else if (actual[i] != expected[i]) {  // infinities may be equal
            ASSERT_NEAR(actual[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << "element " << i;
        }
    }
}

// Sums within a few units in the last place, all else exactly.
void CompareAll(const TensorPtr &on_cpu, const TensorPtr &on_gpu) {
    double tolerance = 0;
    if (IsFloatingPoint(on_cpu->Dtype())) {
        tolerance = on_cpu->Dtype() == DataType::kBFLOAT16  ? 0x1p-7
                    : on_cpu->Dtype() == DataType::kFLOAT16 ? 0x1p-10
                                                            : 1e-5;
    }
    const auto dims = static_cast<int64_t>(on_cpu->Dims().size());
    for (int64_t dim = 0; dim < dims; ++dim) {
        SCOPED_TRACE("dim " + std::to_string(dim));
        ExpectNear(on_gpu->Sum(dim), on_cpu->Sum(dim), tolerance);
        ExpectNear(on_gpu->Max(dim), on_cpu->Max(dim), 0);
        ExpectNear(on_gpu->Min(dim), on_cpu->Min(dim), 0);
        ExpectNear(on_gpu->Argmax(dim), on_cpu->Argmax(dim), 0);
        ExpectNear(on_gpu->Argmin(dim), on_cpu->Argmin(dim), 0);
    }
    SCOPED_TRACE("all dims");
    ExpectNear(on_gpu->Sum(), on_cpu->Sum(), tolerance);
    ExpectNear(on_gpu->Max(), on_cpu->Max(), 0);
    ExpectNear(on_gpu->Min(), on_cpu->Min(), 0);
    if (dims == 3) {
        ExpectNear(on_gpu->Sum({0, 2}, false), on_cpu->Sum({0, 2}, false), tolerance);
    }
}

void CompareAll(const TensorPtr &on_cpu) {
    CompareAll(on_cpu, on_cpu->To(test::Gpu()));
}

TEST_F(ReductionOnGpu, Shapes) {
    const std::vector<std::vector<int64_t>> shapes = {{40000},     {40001},      {8},       {3, 4096},
                                                      {1000, 256}, {1000, 257},  {2000, 3}, {1, 512},
                                                      {512, 1},    {6, 264, 16}, {5, 7, 33}};
    for (const auto &shape : shapes) {
        SCOPED_TRACE(::testing::PrintToString(shape));
        CompareAll(Tensor::Randn(shape));
    }
}

TEST_F(ReductionOnGpu, EveryDataType) {
    const TensorPtr values = Tensor::RandInt(0, 100, {9, 264});
    for (const DataType dtype : {DataType::kUINT8, DataType::kINT8, DataType::kUINT16, DataType::kINT16,
                                 DataType::kUINT32, DataType::kINT32, DataType::kUINT64, DataType::kINT64,
                                 DataType::kBFLOAT16, DataType::kFLOAT16, DataType::kFLOAT64, DataType::kBOOL}) {
        SCOPED_TRACE(ToString(dtype));
        CompareAll(values->To(dtype));
    }
}

TEST_F(ReductionOnGpu, OtherLayouts) {
    const TensorPtr on_cpu = Tensor::Randn({12, 40, 64});
    const TensorPtr on_gpu = on_cpu->To(test::Gpu());
    CompareAll(on_cpu->Transpose(0, 2), on_gpu->Transpose(0, 2));
    CompareAll(on_cpu->Slice(2, 1, 33), on_gpu->Slice(2, 1, 33));        // adjacent, not aligned
    CompareAll(on_cpu->Slice(2, 0, 64, 2), on_gpu->Slice(2, 0, 64, 2));  // not adjacent
    CompareAll(on_cpu->Slice(1, 3, 35), on_gpu->Slice(1, 3, 35));
    const TensorPtr row = Tensor::Randn({1, 512});
    CompareAll(row->Expand({30, 512}), row->To(test::Gpu())->Expand({30, 512}));
}

TEST_F(ReductionOnGpu, TheFirstOfEqualsAndNanWin) {
    std::vector<float> values(16384, 1.0F);
    values[5000] = values[5003] = values[12000] = 7.0F;
    const TensorPtr ties = Tensor::FromVector(values)->To(test::Gpu());
    EXPECT_EQ(Values(ties->Argmax()), std::vector<double>{5000});
    EXPECT_EQ(Values(ties->Argmin()), std::vector<double>{0});
    values[9001] = values[9100] = std::numeric_limits<float>::quiet_NaN();
    const TensorPtr with_nan = Tensor::FromVector(values)->To(test::Gpu());
    EXPECT_EQ(Values(with_nan->Argmax()), std::vector<double>{9001});
    EXPECT_EQ(Values(with_nan->Argmin()), std::vector<double>{9001});
    EXPECT_TRUE(std::isnan(Values(with_nan->Max())[0]));
    EXPECT_TRUE(std::isnan(Values(with_nan->Min())[0]));
}

TEST_F(ReductionOnGpu, SumsByHand) {
    EXPECT_EQ(Values(Tensor::Ones({100000}, DataType::kFLOAT32, test::Gpu())->Sum()), std::vector<double>{100000});
    EXPECT_EQ(Values(Tensor::Ones({3000, 256}, DataType::kFLOAT32, test::Gpu())->Sum(0)),
              std::vector<double>(256, 3000));
    EXPECT_EQ(Values(Tensor::Empty({0, 300}, DataType::kFLOAT32, test::Gpu())->Sum(0)), std::vector<double>(300, 0));
}

}  // namespace
}  // namespace infini_train
