// Every row of test/operator_cases on the emulated device and on the CPU: the same values, types and gradients.

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/device.h"
#include "infini_train/include/tensor.h"

#include "test/cuda_emulation/missing.h"
#include "test/operator_cases/case.h"
#include "test/operator_cases/fixtures.h"

namespace infini_train {
namespace {

using test::Fixture;
using test::Near;
using test::OperatorRow;
using test::Result;

const Device kCuda(DeviceType::kCUDA, 0);

// How far kernels that add in another order may be apart.
double Tolerance(DataType dtype) {
    switch (dtype) {
        case DataType::kFLOAT64:
            return 1e-12;
        case DataType::kFLOAT32:
            return 1e-5;
        case DataType::kFLOAT16:
            return 4e-3;
        case DataType::kBFLOAT16:
            return 3e-2;
        default:
            return 0;
    }
}

void ExpectSame(const TensorPtr &actual, const TensorPtr &expected, double tolerance) {
    EXPECT_EQ(actual->Dtype(), expected->Dtype());
    EXPECT_TRUE(Near(actual->Detach()->To(Device()), expected->Detach(), tolerance));
}

void ExpectSame(const Result &actual, const Result &expected, DataType dtype) {
    const double tolerance = Tolerance(dtype);
    ASSERT_EQ(actual.outputs.size(), expected.outputs.size());
    for (size_t i = 0; i < expected.outputs.size(); ++i) {
        SCOPED_TRACE("output " + std::to_string(i));
        ExpectSame(actual.outputs[i], expected.outputs[i], tolerance);
    }
    ASSERT_EQ(actual.grad_inputs.size(), expected.grad_inputs.size());
    for (const auto &[i, grad] : expected.grad_inputs) {
        SCOPED_TRACE("gradient of input " + std::to_string(i));
        ExpectSame(actual.grad_inputs.at(i), grad, 2 * tolerance);
    }
}

void Compare(const OperatorRow &row, const Fixture &fixture, DataType dtype, bool strided) {
    SCOPED_TRACE(std::string(ToString(dtype)) + (strided ? ", strided" : ""));
    const Result expected = RunRow(row, fixture, Inputs(fixture, dtype, strided));
    const Result actual = RunRow(row, fixture, Inputs(fixture, dtype, strided, kCuda));
    ExpectSame(actual, expected, IsFloatingPoint(dtype) ? dtype : DataType::kFLOAT64);
}

// The floats as whole numbers, which are the same in every type that holds them.
Fixture Whole(const Fixture &fixture) {
    Fixture whole = fixture;
    for (auto &tensor : whole.inputs) {
        if (tensor->Dtype() == DataType::kFLOAT64) {
            tensor = tensor->Mul(3)->To(DataType::kINT64)->To(DataType::kFLOAT64);
        }
    }
    return whole;
}

void RunEverything(const OperatorRow &row, const Fixture &fixture) {
    for (const DataType dtype : {DataType::kFLOAT64, DataType::kFLOAT32, DataType::kFLOAT16, DataType::kBFLOAT16}) {
        if (SizeOf(dtype) == 2 && !row.sixteen_bits) {
            continue;
        }
        Compare(row, fixture, dtype, /*strided=*/false);
        Compare(row, fixture, dtype, /*strided=*/true);
    }
    if (row.integers) {
        const Fixture whole = Whole(fixture);
        for (const DataType dtype : {DataType::kINT64, DataType::kINT32, DataType::kINT16, DataType::kINT8}) {
            Compare(row, whole, dtype, /*strided=*/false);
        }
        Compare(row, whole, DataType::kINT32, /*strided=*/true);
    }
}

class EmulatedCase : public ::testing::TestWithParam<OperatorRow> {};

TEST_P(EmulatedCase, AgreesWithTheCpu) {
    const OperatorRow &row = GetParam();
    const auto found = test::AllFixtures().find(row.name);
    ASSERT_NE(found, test::AllFixtures().end());
    std::set<std::string> missing;
    for (const auto &[shape, fixture] : found->second) {
        SCOPED_TRACE(shape);
        try {
            RunEverything(row, fixture);
        } catch (const NotImplementedError &error) {
            missing.insert(error.what());
        } catch (const Error &error) {
            ADD_FAILURE() << error.what();
        }
    }
    const auto &known = test::RowsWithoutCuda();
    const bool is_known = std::find(known.begin(), known.end(), row.name) != known.end();
    if (missing.empty()) {
        EXPECT_FALSE(is_known) << row.name << " works: take it out of missing.cc";
        return;
    }
    for (const std::string &what : missing) {
        std::printf("%s has no kernel: %s\n", row.name.c_str(), what.c_str());
    }
    EXPECT_TRUE(is_known) << row.name << " isn't listed in missing.cc: " << *missing.begin();
}

INSTANTIATE_TEST_SUITE_P(All, EmulatedCase, ::testing::ValuesIn(test::AllRows()), test::TestName);

TEST(MissingRows, AreRows) {
    for (const std::string &name : test::RowsWithoutCuda()) {
        EXPECT_TRUE(std::any_of(test::AllRows().begin(), test::AllRows().end(), [&](const OperatorRow &row) {
            return row.name == name;
        })) << name;
    }
}

}  // namespace
}  // namespace infini_train
