#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/tensor.h"

namespace infini_train::test {

/// One row of the table: how to run an operator on the inputs of its fixtures, and what it claims.
struct OperatorRow {
    /// `Operator/variant`, as in test/fixtures/make_operator_fixtures.py.
    std::string name;
    std::function<TensorList(const TensorList &)> run;
    bool twice = true;           ///< differentiable twice
    bool integers = false;       ///< takes integers, exactly
    bool sixteen_bits = true;    ///< takes bfloat16 and float16
    double gradient_eps = 1e-6;  ///< step of the finite differences

    std::string Operator() const { return name.substr(0, name.find('/')); }
};
using OperatorRows = std::vector<OperatorRow>;

/// Runs a function object of class F, made with the arguments given here, on a row's inputs.
template <typename F, typename... Args>
std::function<TensorList(const TensorList &)> Apply(Args... args) {
    return [=](const TensorList &inputs) { return std::make_shared<F>(args...)->Apply(inputs); };
}

// The rows by family.
OperatorRows ElementwiseRows();
OperatorRows ReductionRows();
OperatorRows ProductRows();
OperatorRows ShapeRows();

/// All rows, and the operators that have none because another operator's row covers them, with that operator's name.
const OperatorRows &AllRows();
const std::vector<std::pair<std::string, std::string>> &CoveredOperators();

}  // namespace infini_train::test
