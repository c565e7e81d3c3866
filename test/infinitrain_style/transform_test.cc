// Functions that move elements.

#include "infini_train/include/autograd/transform.h"

#include "infini_train/include/autograd/no_op.h"

#include "test/infinitrain_style/autograd_test.h"

namespace infini_train {
namespace {

using test::Dims;
using test::Floats;

class AutogradTransformTest : public test::AutogradTest {
protected:
    TensorPtr Input() const { return Leaf({2, 3}, {1, 2, 3, 4, 5, 6}); }
    const Floats grad_ = {10, 20, 30, 40, 50, 60};
};

TEST_P(AutogradTransformTest, NoOp) {
    Check(std::make_shared<autograd::NoOp>(Dims{3, 2}), {Input()}, {{{3, 2}}, {{1, 2, 3, 4, 5, 6}}, {grad_}, {grad_}});
}

TEST_P(AutogradTransformTest, Tril) {
    Check(std::make_shared<autograd::Tril>(0), {Input()},
          {{{2, 3}}, {{1, 0, 0, 4, 5, 0}}, {grad_}, {{10, 0, 0, 40, 50, 0}}});
    Check(std::make_shared<autograd::Tril>(1), {Input()},
          {{{2, 3}}, {{1, 2, 0, 4, 5, 6}}, {grad_}, {{10, 20, 0, 40, 50, 60}}});
}

TEST_P(AutogradTransformTest, Triu) {
    Check(std::make_shared<autograd::Triu>(0), {Input()},
          {{{2, 3}}, {{1, 2, 3, 0, 5, 6}}, {grad_}, {{10, 20, 30, 0, 50, 60}}});
    Check(std::make_shared<autograd::Triu>(2), {Input()},
          {{{2, 3}}, {{0, 0, 3, 0, 0, 0}}, {grad_}, {{0, 0, 30, 0, 0, 0}}});
}

TEST_P(AutogradTransformTest, Transpose) {
    Check(std::make_shared<autograd::Transpose>(0, 1), {Input()},
          {{{3, 2}}, {{1, 4, 2, 5, 3, 6}}, {grad_}, {{10, 30, 50, 20, 40, 60}}});
}

TEST_P(AutogradTransformTest, Mask) {
    const auto mask = Constant({2, 3}, {0, 1, 0, 0, 0, 1});
    Check(std::make_shared<autograd::Mask>(mask, -9.0F), {Input()},
          {{{2, 3}}, {{1, -9, 3, 4, 5, -9}}, {grad_}, {{10, 0, 30, 40, 50, 0}}});
}

TEST_P(AutogradTransformTest, RepeatInterleave) {
    Check(std::make_shared<autograd::RepeatInterleave>(2, 0), {Leaf({2, 2}, {1, 2, 3, 4})},
          {{{4, 2}}, {{1, 2, 1, 2, 3, 4, 3, 4}}, {{1, 2, 3, 4, 5, 6, 7, 8}}, {{4, 6, 12, 14}}});
    Check(std::make_shared<autograd::RepeatInterleave>(2, 1), {Leaf({2, 2}, {1, 2, 3, 4})},
          {{{2, 4}}, {{1, 1, 2, 2, 3, 3, 4, 4}}, {{1, 2, 3, 4, 5, 6, 7, 8}}, {{3, 7, 11, 15}}});
}

TEST_P(AutogradTransformTest, Split) {
    Check(std::make_shared<autograd::Split>(2, 1), {Input()},
          {{{2, 2}, {2, 1}}, {{1, 2, 4, 5}, {3, 6}}, {{1, 2, 3, 4}, {5, 6}}, {{1, 2, 5, 3, 4, 6}}});
}

TEST_P(AutogradTransformTest, SplitWithAnUnusedPiece) {
    const auto x = Input();
    const auto pieces = std::make_shared<autograd::Split>(1, 0)->Apply({x});
    ASSERT_EQ(pieces.size(), 2U);
    pieces[1]->Backward(Constant({1, 3}, {7, 8, 9}));
    ExpectNear(x->grad(), {0, 0, 0, 7, 8, 9}, "gradient");
}

TEST_P(AutogradTransformTest, Stack) {
    Check(std::make_shared<autograd::Stack>(0), {Leaf({2}, {1, 2}), Leaf({2}, {3, 4})},
          {{{2, 2}}, {{1, 2, 3, 4}}, {{5, 6, 7, 8}}, {{5, 6}, {7, 8}}});
    Check(std::make_shared<autograd::Stack>(1), {Leaf({2}, {1, 2}), Leaf({2}, {3, 4})},
          {{{2, 2}}, {{1, 3, 2, 4}}, {{5, 6, 7, 8}}, {{5, 7}, {6, 8}}});
}

TEST_P(AutogradTransformTest, Concat) {
    Check(std::make_shared<autograd::Concat>(1), {Leaf({2, 1}, {1, 2}), Leaf({2, 2}, {3, 4, 5, 6})},
          {{{2, 3}}, {{1, 3, 4, 2, 5, 6}}, {grad_}, {{10, 40}, {20, 30, 50, 60}}});
    Check(std::make_shared<autograd::Concat>(0), {Leaf({1, 2}, {1, 2}), Leaf({2, 2}, {3, 4, 5, 6})},
          {{{3, 2}}, {{1, 2, 3, 4, 5, 6}}, {grad_}, {{10, 20}, {30, 40, 50, 60}}});
}

TEST_P(AutogradTransformTest, Slice) {
    // Row 1 only, columns 0 and 2.
    Check(std::make_shared<autograd::Slice>(Dims{1, 0}, Dims{2, 3}, Dims{1, 2}), {Input()},
          {{{1, 2}}, {{4, 6}}, {{7, 8}}, {{0, 0, 0, 7, 0, 8}}});
}

INFINI_TRAIN_TEST_ON_ALL_DEVICES(AutogradTransformTest);

}  // namespace
}  // namespace infini_train
