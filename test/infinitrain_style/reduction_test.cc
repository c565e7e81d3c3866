// Reductions and softmax. The input is [[1, 5, 3], [4, 2, 6]] unless said otherwise.

#include "infini_train/include/autograd/reduction.h"

#include <cmath>

#include "infini_train/include/autograd/softmax.h"

#include "test/infinitrain_style/autograd_test.h"

namespace infini_train {
namespace {

using test::Dims;
using test::Floats;

class AutogradReductionTest : public test::AutogradTest {
protected:
    TensorPtr Input() const { return Leaf({2, 3}, {1, 5, 3, 4, 2, 6}); }
};

TEST_P(AutogradReductionTest, Sum) {
    Check(std::make_shared<autograd::Sum>(1), {Input()}, {{{2}}, {{9, 12}}, {{10, 20}}, {{10, 10, 10, 20, 20, 20}}});
    Check(std::make_shared<autograd::Sum>(0), {Input()}, {{{3}}, {{5, 7, 9}}, {{1, 2, 3}}, {{1, 2, 3, 1, 2, 3}}});
    Check(std::make_shared<autograd::Sum>(-1, /*keep_dim=*/true), {Input()},
          {{{2, 1}}, {{9, 12}}, {{1, 2}}, {{1, 1, 1, 2, 2, 2}}});
}

TEST_P(AutogradReductionTest, Mean) {
    Check(std::make_shared<autograd::Mean>(1), {Input()}, {{{2}}, {{3, 4}}, {{3, 6}}, {{1, 1, 1, 2, 2, 2}}});
    Check(std::make_shared<autograd::Mean>(0, /*keep_dim=*/true), {Input()},
          {{{1, 3}}, {{2.5, 3.5, 4.5}}, {{2, 4, 6}}, {{1, 2, 3, 1, 2, 3}}});
}

TEST_P(AutogradReductionTest, MaxAndMin) {
    Check(std::make_shared<autograd::Max>(1), {Input()}, {{{2}}, {{5, 6}}, {{10, 20}}, {{0, 10, 0, 0, 0, 20}}});
    Check(std::make_shared<autograd::Min>(0), {Input()}, {{{3}}, {{1, 2, 3}}, {{1, 2, 3}}, {{1, 0, 3, 0, 2, 0}}});
    Check(std::make_shared<autograd::Max>(0, true), {Input()},
          {{{1, 3}}, {{4, 5, 6}}, {{1, 2, 3}}, {{0, 2, 0, 1, 0, 3}}});
}

TEST_P(AutogradReductionTest, MiddleDimension) {
    Check(std::make_shared<autograd::Sum>(1), {Leaf({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8})},
          {{{2, 2}}, {{4, 6, 12, 14}}, {{1, 2, 3, 4}}, {{1, 2, 1, 2, 3, 4, 3, 4}}});
}

TEST_P(AutogradReductionTest, Softmax) {
    // exp(0), exp(log 2) and exp(log 5) are to each other as 1, 2 and 5.
    const Floats x = {0, std::log(2.0F), std::log(5.0F)};
    // grad_x = y (g - sum(g y)), and g = (8, 0, 0) makes the sum 1.
    Check(std::make_shared<autograd::Softmax>(), {Leaf({1, 3}, x)},
          {{{1, 3}}, {{0.125, 0.25, 0.625}}, {{8, 0, 0}}, {{0.875, -0.25, -0.625}}});
    Check(std::make_shared<autograd::Softmax>(0), {Leaf({3, 1}, x)},
          {{{3, 1}}, {{0.125, 0.25, 0.625}}, {{8, 0, 0}}, {{0.875, -0.25, -0.625}}});
}

INFINI_TRAIN_TEST_ON_ALL_DEVICES(AutogradReductionTest);

}  // namespace
}  // namespace infini_train
