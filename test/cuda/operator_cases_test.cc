// Every row of the operator table on a GPU, emulated or not, against the CPU: values and gradients, all data types,
// other layouts in memory.

#include <algorithm>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/tensor.h"

#include "test/cuda/gpu.h"
#include "test/operator_cases/case.h"
#include "test/operator_cases/fixture.h"

namespace infini_train {
namespace {

using test::AllFixtures;
using test::Fixture;
using test::Inputs;
using test::Near;
using test::OperatorRow;
using test::Result;
using test::RunRow;

class OperatorOnGpu : public ::testing::TestWithParam<OperatorRow> {
protected:
    void SetUp() override { INFINI_TRAIN_NEEDS_GPU(); }

    void Compare(DataType dtype, bool strided, double tolerance) const {
        const auto found = AllFixtures().find(GetParam().name);
        ASSERT_NE(found, AllFixtures().end()) << "no fixture";
        for (const auto &[shape, fixture] : found->second) {
            SCOPED_TRACE(shape + ", " + ToString(dtype));
            const Result on_cpu = RunRow(GetParam(), fixture, Inputs(fixture, dtype, Device(), strided));
            const Result on_gpu = RunRow(GetParam(), fixture, Inputs(fixture, dtype, test::Gpu(), strided));
            ASSERT_EQ(on_gpu.outputs.size(), on_cpu.outputs.size());
            for (size_t i = 0; i < on_cpu.outputs.size(); ++i) {
                const bool moves = GetParam().Operator() == "ToDevice";
                EXPECT_EQ(on_gpu.outputs[i]->GetDevice().IsCUDA(), !moves) << "output " << i;
                EXPECT_EQ(on_gpu.outputs[i]->Dtype(), on_cpu.outputs[i]->Dtype()) << "output " << i;
                const double limit = IsFloatingPoint(on_cpu.outputs[i]->Dtype()) ? tolerance : 0;
                EXPECT_TRUE(Near(on_gpu.outputs[i], on_cpu.outputs[i]->Detach(), limit)) << "output " << i;
            }
            ASSERT_EQ(on_gpu.grad_inputs.size(), on_cpu.grad_inputs.size());
            for (const auto &[i, grad] : on_cpu.grad_inputs) {
                EXPECT_TRUE(on_gpu.grad_inputs.at(i)->GetDevice().IsCUDA()) << "gradient of input " << i;
                EXPECT_TRUE(Near(on_gpu.grad_inputs.at(i), grad, 4 * tolerance)) << "gradient of input " << i;
            }
        }
    }
};

// Sums are taken in another order than on the CPU, hence the tolerances: a few units in the last place of the type.
TEST_P(OperatorOnGpu, Float32) {
    Compare(DataType::kFLOAT32, false, 4e-6);
}
TEST_P(OperatorOnGpu, Float32WithGaps) {
    Compare(DataType::kFLOAT32, true, 4e-6);
}
TEST_P(OperatorOnGpu, Float64) {
    Compare(DataType::kFLOAT64, false, 1e-13);
}
TEST_P(OperatorOnGpu, BFloat16) {
    if (GetParam().sixteen_bits) {
        Compare(DataType::kBFLOAT16, false, 1.6e-2);
    }
}
TEST_P(OperatorOnGpu, Float16) {
    if (GetParam().sixteen_bits) {
        Compare(DataType::kFLOAT16, false, 2e-3);
    }
}

// Whole numbers, exactly, in all integer types.
TEST_P(OperatorOnGpu, Integers) {
    if (!GetParam().integers) {
        return;
    }
    for (const auto &[shape, fixture] : AllFixtures().at(GetParam().name)) {
        SCOPED_TRACE(shape);
        Fixture whole = fixture;
        for (auto &tensor : whole.inputs) {
            if (tensor->Dtype() == DataType::kFLOAT64) {
                tensor = tensor->Mul(3)->To(DataType::kINT64)->To(DataType::kFLOAT64);
            }
        }
        for (const DataType dtype : {DataType::kINT64, DataType::kINT32, DataType::kINT16, DataType::kINT8}) {
            SCOPED_TRACE(ToString(dtype));
            const TensorList on_cpu = GetParam().run(Inputs(whole, dtype));
            const TensorList on_gpu = GetParam().run(Inputs(whole, dtype, test::Gpu()));
            for (size_t i = 0; i < on_cpu.size(); ++i) {
                EXPECT_EQ(on_gpu[i]->Dtype(), on_cpu[i]->Dtype());
                EXPECT_TRUE(Near(on_gpu[i], on_cpu[i]->Detach(), 0)) << "output " << i;
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(All, OperatorOnGpu, ::testing::ValuesIn(test::AllRows()), test::TestName);

}  // namespace
}  // namespace infini_train
