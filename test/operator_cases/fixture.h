#pragma once

#include <cstddef>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "infini_train/include/datatype.h"
#include "infini_train/include/device.h"
#include "infini_train/include/tensor.h"

#include "test/operator_cases/case.h"

namespace infini_train::test {

/// What PyTorch computed in float64 for one row on one shape.
struct Fixture {
    TensorList inputs, outputs, grad_outputs;
    std::map<size_t, TensorPtr> grad_inputs;
};

/// All fixtures by row and shape.
using Fixtures = std::map<std::string, std::map<std::string, Fixture>>;
const Fixtures &AllFixtures();

/// The inputs of a fixture anew, in a data type where they are floats, with gaps between their elements if `strided`;
/// those with a gradient require one.
TensorList Inputs(const Fixture &fixture, DataType dtype = DataType::kFLOAT64, Device device = {},
                  bool strided = false);

struct Result {
    TensorList outputs;
    std::map<size_t, TensorPtr> grad_inputs;
};

/// Runs a row forward and, from the fixture's gradients of the outputs, backward.
Result RunRow(const OperatorRow &row, const Fixture &fixture, const TensorList &inputs);

/// |actual - expected| <= tolerance * (1 + |expected|) everywhere; NaN matches NaN.
::testing::AssertionResult Near(const TensorPtr &actual, const TensorPtr &expected, double tolerance);

/// A row's name as GoogleTest wants it.
std::string TestName(const ::testing::TestParamInfo<OperatorRow> &info);

}  // namespace infini_train::test
