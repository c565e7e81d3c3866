// Elementwise functions and activations: values and derivatives from the standard library, by formula.

#include "infini_train/include/autograd/elementwise.h"

#include <cmath>
#include <functional>

#include "infini_train/include/autograd/activations.h"

#include "test/infinitrain_style/autograd_test.h"

namespace infini_train {
namespace {

using test::Dims;
using test::Floats;

class AutogradElementwiseTest : public test::AutogradTest {
protected:
    using Formula = std::function<double(double)>;

    // One operand: `value` and `slope` are formulas of x.
    void CheckUnary(const std::shared_ptr<autograd::Function> &function, const Floats &x, const Formula &value,
                    const Formula &slope) {
        const auto n = static_cast<int64_t>(x.size());
        Expected expected = {{{n}}, {{}}, {{}}, {{}}};
        for (size_t i = 0; i < x.size(); ++i) {
            const float grad = 0.5F + static_cast<float>(i);
            expected.outputs[0].push_back(static_cast<float>(value(x[i])));
            expected.grad_outputs[0].push_back(grad);
            expected.grad_inputs[0].push_back(static_cast<float>(grad * slope(x[i])));
        }
        Check(function, {Leaf({n}, x)}, expected);
    }

    const Floats any_ = {-2, -0.5, 0.25, 3};
    const Floats positive_ = {0.1F, 0.5, 1, 4};
};

TEST_P(AutogradElementwiseTest, Neg) {
    CheckUnary(
        std::make_shared<autograd::Neg>(), any_, [](double x) { return -x; }, [](double) { return -1; });
}

TEST_P(AutogradElementwiseTest, Reciprocal) {
    CheckUnary(
        std::make_shared<autograd::Reciprocal>(), any_, [](double x) { return 1 / x; },
        [](double x) { return -1 / (x * x); });
}

TEST_P(AutogradElementwiseTest, SinAndCos) {
    CheckUnary(
        std::make_shared<autograd::Sin>(), any_, [](double x) { return std::sin(x); },
        [](double x) { return std::cos(x); });
    CheckUnary(
        std::make_shared<autograd::Cos>(), any_, [](double x) { return std::cos(x); },
        [](double x) { return -std::sin(x); });
}

TEST_P(AutogradElementwiseTest, Tanh) {
    CheckUnary(
        std::make_shared<autograd::Tanh>(), any_, [](double x) { return std::tanh(x); },
        [](double x) { return 1 / (std::cosh(x) * std::cosh(x)); });
}

TEST_P(AutogradElementwiseTest, Pow) {
    CheckUnary(
        std::make_shared<autograd::Pow>(3.0F), any_, [](double x) { return x * x * x; },
        [](double x) { return 3 * x * x; });
    CheckUnary(
        std::make_shared<autograd::Pow>(-1.5F), positive_, [](double x) { return std::pow(x, -1.5); },
        [](double x) { return -1.5 * std::pow(x, -2.5); });
}

TEST_P(AutogradElementwiseTest, Rsqrt) {
    CheckUnary(
        std::make_shared<autograd::Rsqrt>(), positive_, [](double x) { return 1 / std::sqrt(x); },
        [](double x) { return -0.5 * std::pow(x, -1.5); });
}

TEST_P(AutogradElementwiseTest, ExpAndLog) {
    CheckUnary(
        std::make_shared<autograd::Exp>(), any_, [](double x) { return std::exp(x); },
        [](double x) { return std::exp(x); });
    CheckUnary(
        std::make_shared<autograd::Log>(), positive_, [](double x) { return std::log(x); },
        [](double x) { return 1 / x; });
}

TEST_P(AutogradElementwiseTest, Sigmoid) {
    CheckUnary(
        std::make_shared<autograd::Sigmoid>(), any_, [](double x) { return 1 / (1 + std::exp(-x)); },
        [](double x) { return std::exp(-x) / ((1 + std::exp(-x)) * (1 + std::exp(-x))); });
}

TEST_P(AutogradElementwiseTest, AddAndSub) {
    Check(std::make_shared<autograd::Add>(), {Leaf({2, 2}, {1, 2, 3, 4}), Leaf({2, 2}, {10, 20, 30, 40})},
          {{{2, 2}}, {{11, 22, 33, 44}}, {{1, 2, 3, 4}}, {{1, 2, 3, 4}, {1, 2, 3, 4}}});
    Check(std::make_shared<autograd::Sub>(), {Leaf({2, 2}, {1, 2, 3, 4}), Leaf({2, 2}, {10, 20, 30, 40})},
          {{{2, 2}}, {{-9, -18, -27, -36}}, {{1, 2, 3, 4}}, {{1, 2, 3, 4}, {-1, -2, -3, -4}}});
}

TEST_P(AutogradElementwiseTest, MulAndDiv) {
    Check(std::make_shared<autograd::Mul>(), {Leaf({2, 2}, {1, 2, 3, 4}), Leaf({2, 2}, {5, 6, 7, 8})},
          {{{2, 2}}, {{5, 12, 21, 32}}, {{1, 1, 2, 2}}, {{5, 6, 14, 16}, {1, 2, 6, 8}}});
    Check(std::make_shared<autograd::Div>(), {Leaf({2}, {6, 9}), Leaf({2}, {2, -3})},
          {{{2}}, {{3, -3}}, {{4, 9}}, {{2, -3}, {-6, -9}}});
}

TEST_P(AutogradElementwiseTest, Broadcast) {
    // (2, 3) and (3): the second one's gradient is summed over the rows.
    Check(std::make_shared<autograd::Add>(), {Leaf({2, 3}, {1, 2, 3, 4, 5, 6}), Leaf({3}, {10, 20, 30})},
          {{{2, 3}}, {{11, 22, 33, 14, 25, 36}}, {{1, 2, 3, 4, 5, 6}}, {{1, 2, 3, 4, 5, 6}, {5, 7, 9}}});
    Check(std::make_shared<autograd::Mul>(), {Leaf({2, 1}, {2, 3}), Leaf({1, 2}, {5, 7})},
          {{{2, 2}}, {{10, 14, 15, 21}}, {{1, 1, 1, 1}}, {{12, 12}, {5, 5}}});
}

TEST_P(AutogradElementwiseTest, Scalars) {
    Check(std::make_shared<autograd::AddScalar>(2.5F), {Leaf({2}, {1, -2})}, {{{2}}, {{3.5, 0.5}}, {{3, 4}}, {{3, 4}}});
    Check(std::make_shared<autograd::MulScalar>(-2.0F), {Leaf({2}, {1, -2})}, {{{2}}, {{-2, 4}}, {{3, 4}}, {{-6, -8}}});
}

TEST_P(AutogradElementwiseTest, Comparisons) {
    const auto a = Leaf({4}, {1, 2, 3, 0}), b = Leaf({4}, {1, 3, 2, 5});
    CheckForward(std::make_shared<autograd::Equals>(), {a, b}, {1, 0, 0, 0});
    CheckForward(std::make_shared<autograd::Lt>(), {a, b}, {0, 1, 0, 1});
    CheckForward(std::make_shared<autograd::Le>(), {a, b}, {1, 1, 0, 1});
    CheckForward(std::make_shared<autograd::Gt>(), {a, b}, {0, 0, 1, 0});
    CheckForward(std::make_shared<autograd::Ge>(), {a, b}, {1, 0, 1, 0});
    CheckForward(std::make_shared<autograd::And>(), {a, b}, {1, 1, 1, 0});
    CheckForward(std::make_shared<autograd::Or>(), {a, b}, {1, 1, 1, 1});
    EXPECT_EQ(std::make_shared<autograd::Equals>()->Apply({a, b})[0]->Dtype(), DataType::kBOOL);
}

TEST_P(AutogradElementwiseTest, ComparisonsWithScalars) {
    const auto a = Leaf({4}, {1, 2, 3, 0});
    CheckForward(std::make_shared<autograd::EqualsScalar>(2.0F), {a}, {0, 1, 0, 0});
    CheckForward(std::make_shared<autograd::LtScalar>(2.0F), {a}, {1, 0, 0, 1});
    CheckForward(std::make_shared<autograd::LeScalar>(2.0F), {a}, {1, 1, 0, 1});
    CheckForward(std::make_shared<autograd::GtScalar>(2.0F), {a}, {0, 0, 1, 0});
    CheckForward(std::make_shared<autograd::GeScalar>(2.0F), {a}, {0, 1, 1, 0});
    CheckForward(std::make_shared<autograd::AndScalar>(2.0F), {a}, {1, 1, 1, 0});
    CheckForward(std::make_shared<autograd::OrScalar>(0.0F), {a}, {1, 1, 1, 0});
}

INFINI_TRAIN_TEST_ON_ALL_DEVICES(AutogradElementwiseTest);

}  // namespace
}  // namespace infini_train
