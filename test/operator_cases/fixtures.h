#pragma once

#include <cstddef>
#include <map>
#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "infini_train/include/datatype.h"
#include "infini_train/include/device.h"
#include "infini_train/include/tensor.h"

#include "test/operator_cases/case.h"

namespace infini_train::test {

/// What PyTorch computed for one row on one shape.
struct Fixture {
    TensorList inputs, outputs, grad_outputs;
    std::map<size_t, TensorPtr> grad_inputs;
};

/// All fixtures by row and shape.
using Fixtures = std::map<std::string, std::map<std::string, Fixture>>;
const Fixtures &AllFixtures();

/// The inputs of a fixture anew, in a data type where they are floats, on a device; those with a gradient require one.
/// `strided` ones lie with gaps.
TensorList Inputs(const Fixture &fixture, DataType dtype = DataType::kFLOAT64, bool strided = false,
                  Device device = {});

struct Result {
    TensorList outputs;
    std::map<size_t, TensorPtr> grad_inputs;
};

/// The row's outputs, and the gradients of the inputs that require one.
Result RunRow(const OperatorRow &row, const Fixture &fixture, const TensorList &inputs);

/// |actual - expected| <= tolerance * (1 + |expected|) everywhere; NaN matches NaN.
::testing::AssertionResult Near(const TensorPtr &actual, const TensorPtr &expected, double tolerance);

/// For GoogleTest's messages.
inline void PrintTo(const OperatorRow &row, std::ostream *stream) {
    *stream << row.name;
}
/// A row's name in GoogleTest's alphabet.
std::string TestName(const ::testing::TestParamInfo<OperatorRow> &info);

}  // namespace infini_train::test
