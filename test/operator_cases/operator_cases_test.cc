// Runs every row of the table on its fixtures: values and gradients against PyTorch's in float64, finite differences,
// other data types, other layouts in memory, other numbers of threads. Also: every operator has a row and a comment.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/gradcheck.h"
#include "infini_train/include/core/parallel.h"
#include "infini_train/include/tensor.h"

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

void ExpectNear(const Result &actual, const Fixture &expected, double tolerance, double gradient_tolerance) {
    ASSERT_EQ(actual.outputs.size(), expected.outputs.size());
    for (size_t i = 0; i < expected.outputs.size(); ++i) {
        EXPECT_TRUE(Near(actual.outputs[i], expected.outputs[i], tolerance)) << "output " << i;
    }
    ASSERT_EQ(actual.grad_inputs.size(), expected.grad_inputs.size());
    for (const auto &[i, grad] : expected.grad_inputs) {
        EXPECT_TRUE(Near(actual.grad_inputs.at(i), grad, gradient_tolerance)) << "gradient of input " << i;
        EXPECT_EQ(actual.grad_inputs.at(i)->Dtype(), actual.grad_inputs.at(i)->Dtype());
    }
}

// Whether an integer type can hold all values.
bool Holds(DataType dtype, const Tensor &tensor) {
    const double limit = std::ldexp(1.0, static_cast<int>(8 * SizeOf(dtype)) - 1) - 1;
    const auto values = tensor.ToVector<double>();
    return std::all_of(values.begin(), values.end(), [&](double value) { return std::abs(value) <= limit; });
}

class OperatorCase : public ::testing::TestWithParam<OperatorRow> {
protected:
    template <typename Body>
    void ForEachShape(Body &&body) const {
        const auto found = AllFixtures().find(GetParam().name);
        ASSERT_NE(found, AllFixtures().end()) << "no fixture; add the case to make_operator_fixtures.py";
        for (const auto &[shape, fixture] : found->second) {
            SCOPED_TRACE(shape);
            body(fixture);
        }
    }
};

TEST_P(OperatorCase, ValuesAndGradientsAsPyTorch) {
    ForEachShape([&](const Fixture &fixture) {
        ExpectNear(RunRow(GetParam(), fixture, Inputs(fixture)), fixture, 1e-12, 1e-11);
    });
}

TEST_P(OperatorCase, AnyLayoutInMemory) {
    ForEachShape([&](const Fixture &fixture) {
        ExpectNear(RunRow(GetParam(), fixture, Inputs(fixture, DataType::kFLOAT64, Device(), /*strided=*/true)),
                   fixture, 1e-12, 1e-11);
    });
}

TEST_P(OperatorCase, FloatingTypes) {
    const struct {
        DataType dtype;
        double tolerance;
    } types[] = {{DataType::kFLOAT32, 2e-5}, {DataType::kFLOAT16, 6e-3}, {DataType::kBFLOAT16, 5e-2}};
    ForEachShape([&](const Fixture &fixture) {
        for (const auto &type : types) {
            SCOPED_TRACE(ToString(type.dtype));
            if (type.dtype != DataType::kFLOAT32 && !GetParam().sixteen_bits) {
                continue;
            }
            // The reference for a narrow type starts from inputs that it can hold.
            Fixture rounded = fixture;
            for (auto *list : {&rounded.inputs, &rounded.grad_outputs}) {
                for (auto &tensor : *list) {
                    if (tensor->Dtype() == DataType::kFLOAT64) {
                        tensor = tensor->To(type.dtype)->To(DataType::kFLOAT64);
                    }
                }
            }
            const Result exact = RunRow(GetParam(), rounded, Inputs(rounded));
            const Result result = RunRow(GetParam(), rounded, Inputs(rounded, type.dtype));
            for (size_t i = 0; i < exact.outputs.size(); ++i) {
                const bool real = exact.outputs[i]->Dtype() == DataType::kFLOAT64;
                EXPECT_EQ(result.outputs[i]->Dtype(), real ? type.dtype : exact.outputs[i]->Dtype());
                EXPECT_TRUE(Near(result.outputs[i], exact.outputs[i]->Detach(), type.tolerance)) << "output " << i;
            }
            for (const auto &[i, grad] : exact.grad_inputs) {
                EXPECT_EQ(result.grad_inputs.at(i)->Dtype(), type.dtype);
                EXPECT_TRUE(Near(result.grad_inputs.at(i), grad, 2 * type.tolerance)) << "gradient of input " << i;
            }
        }
    });
}

TEST_P(OperatorCase, Integers) {
    if (!GetParam().integers) {
        return;
    }
    ForEachShape([&](const Fixture &fixture) {
        // Whole numbers give the same in every type that can hold them.
        Fixture whole = fixture;
        for (auto &tensor : whole.inputs) {
            if (tensor->Dtype() == DataType::kFLOAT64) {
                tensor = tensor->Mul(3)->To(DataType::kINT64)->To(DataType::kFLOAT64);
            }
        }
        const TensorList exact = GetParam().run(Inputs(whole));
        for (const DataType dtype : {DataType::kINT64, DataType::kINT32, DataType::kINT16, DataType::kINT8}) {
            SCOPED_TRACE(ToString(dtype));
            if (!std::all_of(exact.begin(), exact.end(), [&](const TensorPtr &y) { return Holds(dtype, *y); })) {
                continue;
            }
            const TensorList outputs = GetParam().run(Inputs(whole, dtype));
            ASSERT_EQ(outputs.size(), exact.size());
            for (size_t i = 0; i < exact.size(); ++i) {
                EXPECT_FALSE(IsFloatingPoint(outputs[i]->Dtype()));
                EXPECT_TRUE(Near(outputs[i], exact[i]->Detach(), 0)) << "output " << i;
            }
        }
    });
}

TEST_P(OperatorCase, FiniteDifferences) {
    ForEachShape([&](const Fixture &fixture) {
        if (fixture.grad_inputs.empty()) {
            return;
        }
        // Quadratic in the number of elements: large shapes are covered by the values.
        int64_t elements = 0;
        for (const auto &input : fixture.inputs) {
            elements += input->NumElements();
        }
        if (elements > 90) {
            return;
        }
        autograd::GradCheckOptions options;
        options.eps = GetParam().gradient_eps;
        const auto first = autograd::GradCheck(GetParam().run, Inputs(fixture), options);
        EXPECT_TRUE(first) << first.message;
        if (GetParam().twice) {
            const auto second = autograd::GradGradCheck(GetParam().run, Inputs(fixture), {}, options);
            EXPECT_TRUE(second) << second.message;
        }
    });
}

TEST_P(OperatorCase, AnyNumberOfThreads) {
    const int before = GetNumThreads();
    ForEachShape([&](const Fixture &fixture) {
        std::vector<Result> results;
        for (const int threads : {1, 2, 3}) {
            SetNumThreads(threads);
            results.push_back(RunRow(GetParam(), fixture, Inputs(fixture, DataType::kFLOAT32)));
        }
        for (size_t r = 1; r < results.size(); ++r) {
            for (size_t i = 0; i < results[0].outputs.size(); ++i) {
                EXPECT_TRUE(Near(results[r].outputs[i], results[0].outputs[i]->Detach(), 0));
            }
            for (const auto &[i, grad] : results[0].grad_inputs) {
                EXPECT_TRUE(Near(results[r].grad_inputs.at(i), grad, 0));
            }
        }
    });
    SetNumThreads(before);
}

INSTANTIATE_TEST_SUITE_P(All, OperatorCase, ::testing::ValuesIn(test::AllRows()), test::TestName);

// ---- The table is complete ------------------------------------------------------------------------------------------

TEST(OperatorTable, EveryFixtureHasARow) {
    std::set<std::string> rows;
    for (const OperatorRow &row : test::AllRows()) {
        EXPECT_TRUE(rows.insert(row.name).second) << row.name << " stands twice";
    }
    for (const auto &[name, shapes] : AllFixtures()) {
        EXPECT_EQ(rows.count(name), 1U) << name;
    }
}

// The classes under include/autograd that derive from Function, and whether a /// comment stands before each.
std::map<std::string, bool> DeclaredOperators() {
    std::map<std::string, bool> declared;
    std::map<std::string, std::string> bases;
    const std::regex pattern("class (?:INFINI_TRAIN_EXPORT )?(\\w+)(?: final)? : public (\\w+) \\{.*");
    for (const auto &entry : std::filesystem::directory_iterator("infini_train/include/autograd")) {
        std::ifstream file(entry.path());
        std::string line, before;
        while (std::getline(file, line)) {
            std::smatch parts;
            if (std::regex_match(line, parts, pattern)) {
                bases[parts[1]] = parts[2];
                declared[parts[1]] = before.rfind("///", 0) == 0;
            }
            before = line;
        }
    }
    // Those alone that derive from Function, maybe by way of another class, and that nothing else derives from unless
    // they have a name of their own in the graph.
    std::map<std::string, bool> operators;
    for (const auto &[name, documented] : declared) {
        std::string base = name;
        while (bases.count(base) != 0) {
            base = bases[base];
        }
        const bool abstract = name.size() > 8 && name.compare(name.size() - 8, 8, "Function") == 0;
        if (base == "Function" && !abstract && name != "AccumulateGrad") {
            operators[name] = documented;
        }
    }
    return operators;
}

TEST(OperatorTable, EveryOperatorHasARowAndAComment) {
    const auto operators = DeclaredOperators();
    EXPECT_GT(operators.size(), 70U);
    std::set<std::string> covered;
    for (const OperatorRow &row : test::AllRows()) {
        covered.insert(row.Operator());
        EXPECT_EQ(operators.count(row.Operator()), 1U) << row.name << " is of no declared operator";
    }
    for (const auto &[name, by] : test::CoveredOperators()) {
        EXPECT_EQ(covered.count(by), 1U) << name << " is said to be covered by " << by;
        covered.insert(name);
    }
    for (const auto &[name, documented] : operators) {
        EXPECT_EQ(covered.count(name), 1U) << name << " has no row in test/operator_cases";
        EXPECT_TRUE(documented) << name << " has no /// comment";
    }
}

}  // namespace
}  // namespace infini_train
