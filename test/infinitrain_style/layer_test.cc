// Products, normalisation, the loss, and lookups; small enough to be worked out by hand.

#include <cmath>

#include "infini_train/include/autograd/gather.h"
#include "infini_train/include/autograd/linear.h"
#include "infini_train/include/autograd/loss.h"
#include "infini_train/include/autograd/matmul.h"
#include "infini_train/include/autograd/normalization.h"
#include "infini_train/include/autograd/outer.h"
#include "infini_train/include/autograd/scatter.h"
#include "infini_train/include/autograd/sparse.h"

#include "test/infinitrain_style/autograd_test.h"

namespace infini_train {
namespace {

using test::Dims;
using test::Floats;

class AutogradLayerTest : public test::AutogradTest {};

TEST_P(AutogradLayerTest, Matmul) {
    Check(std::make_shared<autograd::Matmul>(), {Leaf({2, 3}, {1, 2, 3, 4, 5, 6}), Leaf({3, 2}, {1, 0, 0, 1, 2, -1})},
          {{{2, 2}}, {{7, -1, 16, -1}}, {{1, 2, 3, 4}}, {{1, 2, 0, 3, 4, 2}, {13, 18, 17, 24, 21, 30}}});
}

TEST_P(AutogradLayerTest, MatmulOfBatches) {
    // Two products of (1, 2) and (2, 1).
    Check(std::make_shared<autograd::Matmul>(), {Leaf({2, 1, 2}, {1, 2, 3, 4}), Leaf({2, 2, 1}, {5, 6, 7, 8})},
          {{{2, 1, 1}}, {{17, 53}}, {{1, 10}}, {{5, 6, 70, 80}, {1, 2, 30, 40}}});
}

TEST_P(AutogradLayerTest, Linear) {
    const auto x = Leaf({2, 2}, {1, 2, 3, 4}), weight = Leaf({3, 2}, {1, 0, 0, 1, 1, 1}),
               bias = Leaf({3}, {10, 20, 30});
    Check(
        std::make_shared<autograd::Linear>(), {x, weight, bias},
        {{{2, 3}}, {{11, 22, 33, 13, 24, 37}}, {{1, 0, 2, 0, 1, 3}}, {{3, 2, 3, 4}, {1, 2, 3, 4, 11, 16}, {1, 1, 5}}});
}

TEST_P(AutogradLayerTest, LinearWithoutBias) {
    Check(std::make_shared<autograd::Linear>(), {Leaf({1, 2}, {1, 2}), Leaf({1, 2}, {3, 4})},
          {{{1, 1}}, {{11}}, {{2}}, {{6, 8}, {2, 4}}});
}

TEST_P(AutogradLayerTest, Outer) {
    Check(std::make_shared<autograd::Outer>(), {Leaf({2}, {1, 2}), Leaf({3}, {3, 4, 5})},
          {{{2, 3}}, {{3, 4, 5, 6, 8, 10}}, {{1, 0, 0, 0, 0, 1}}, {{3, 5}, {1, 0, 2}}});
}

TEST_P(AutogradLayerTest, LayerNorm) {
    // Mean 0 and variance 1 already: x_hat = x. With w g = h: grad_x = h - mean(h) - x mean(h x).
    Check(std::make_shared<autograd::LayerNorm>(1e-12F),
          {Leaf({1, 4}, {1, -1, 1, -1}), Leaf({4}, {1, 2, 3, 4}), Leaf({4}, {10, 20, 30, 40})},
          {{{1, 4}}, {{11, 18, 33, 36}}, {{4, 0, 0, 0}}, {{2, 0, -2, 0}, {4, 0, 0, 0}, {4, 0, 0, 0}}});
}

TEST_P(AutogradLayerTest, CrossEntropy) {
    // Softmax of the rows: (1/4, 3/4) and (1/2, 1/2); labels 1 and 0. The derivative is (softmax - one hot) / rows.
    const auto logits = Leaf({2, 2}, {0, std::log(3.0F), 1, 1});
    const float loss = (std::log(4.0F / 3) + std::log(2.0F)) / 2;
    Check(std::make_shared<autograd::CrossEntropy>(), {logits, Indices({2}, {1, 0})},
          {{{}}, {{loss}}, {{8}}, {{1, -1, -2, 2}, {}}});
}

TEST_P(AutogradLayerTest, Embedding) {
    Check(std::make_shared<autograd::Embedding>(), {Indices({3}, {2, 0, 2}), Leaf({3, 2}, {1, 2, 3, 4, 5, 6})},
          {{{3, 2}}, {{5, 6, 1, 2, 5, 6}}, {{1, 2, 3, 4, 5, 6}}, {{}, {3, 4, 0, 0, 6, 8}}});
}

TEST_P(AutogradLayerTest, Gather) {
    Check(std::make_shared<autograd::Gather>(1), {Leaf({2, 3}, {1, 2, 3, 4, 5, 6}), Indices({2, 2}, {2, 2, 0, 1})},
          {{{2, 2}}, {{3, 3, 4, 5}}, {{1, 2, 3, 4}}, {{0, 0, 3, 3, 4, 0}, {}}});
}

TEST_P(AutogradLayerTest, Scatter) {
    Check(std::make_shared<autograd::Scatter>(Dims{2, 3}), {Leaf({2, 2}, {1, 2, 3, 4}), Indices({2, 2}, {2, 2, 0, 1})},
          {{{2, 3}}, {{0, 0, 3, 3, 4, 0}}, {{1, 2, 3, 4, 5, 6}}, {{3, 3, 4, 5}, {}}});
}

INFINI_TRAIN_TEST_ON_ALL_DEVICES(AutogradLayerTest);

}  // namespace
}  // namespace infini_train
