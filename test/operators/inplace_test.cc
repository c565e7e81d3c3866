// The operators that change their tensor: values, memory, versions, the graph, and errors.

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/tensor.h"

#include "test/operators/derivative.h"

namespace infini_train {
namespace {

using test::ExpectError;
using Floats = std::vector<float>;

TEST(InPlace, WritesIntoItsMemoryAndCountsTheChange) {
    const auto x = Tensor::FromVector<float>({1, 2, -3});
    const void *const memory = x->DataPtr();
    uint32_t version = x->Version();
    const auto check = [&](const TensorPtr &result, const Floats &expected) {
        EXPECT_EQ(result, x);
        EXPECT_EQ(x->DataPtr(), memory);
        EXPECT_EQ(x->Version(), ++version);
        EXPECT_EQ(x->ToVector<float>(), expected);
    };
    check(x->Add_(Tensor::FromVector<float>({1, 1, 1})), {2, 3, -2});
    check(x->Add_(1), {3, 4, -1});
    check(x->Sub_(Tensor::FromScalar(1)), {2, 3, -2});
    check(x->Sub_(1), {1, 2, -3});
    check(x->Mul_(x), {1, 4, 9});
    check(x->Mul_(2), {2, 8, 18});
    check(x->Div_(Tensor::FromVector<float>({2, 4, 6})), {1, 2, 3});
    check(x->Div_(2), {0.5F, 1, 1.5F});
    check(x->Sub_(1), {-0.5F, 0, 0.5F});
    check(x->Relu_(), {0, 0, 0.5F});
    check(x->Fill_(3), {3, 3, 3});
    check(x->Copy_(Tensor::FromVector<int64_t>({4, 5, 6})), {4, 5, 6});
    check(x->Zero_(), {0, 0, 0});
}

TEST(InPlace, KeepsItsTypeAndShape) {
    const auto half = Tensor::Ones({2, 2}, DataType::kBFLOAT16);
    half->Add_(Tensor::FromVector<double>({0.5, 2}));
    EXPECT_EQ(half->Dtype(), DataType::kBFLOAT16);
    EXPECT_EQ(half->ToVector<float>(), (Floats{1.5F, 3, 1.5F, 3}));
    const auto count = Tensor::Ones({2}, DataType::kINT32);
    count->Add_(Tensor::FromVector<int64_t>({5, -5}))->Mul_(2);
    EXPECT_EQ(count->ToVector<int32_t>(), (std::vector<int32_t>{12, -8}));
    const auto flag = Tensor::FromVector<bool>({true, false});
    flag->Mul_(false);
    EXPECT_EQ(flag->ToVector<bool>(), (std::vector<bool>{false, false}));
    flag->Add_(Tensor::FromVector<bool>({false, true}));
    EXPECT_EQ(flag->ToVector<bool>(), (std::vector<bool>{false, true}));
}

TEST(InPlace, IsRecorded) {
    const auto x = Tensor::FromVector<float>({1, 2})->RequiresGrad();
    const auto y = x->Mul(3);
    y->Mul_(Tensor::FromVector<float>({2, 4}))->Add_(x)->Div_(2);  // (6 x + x) / 2, (12 x + x) / 2
    y->Backward(Tensor::Ones({2}));
    EXPECT_EQ(x->grad()->ToVector<float>(), (Floats{3.5F, 6.5F}));
    // A tensor of values joins the graph.
    const auto sum = Tensor::Zeros({2, 2});
    sum->Add_(x)->Relu_();
    EXPECT_TRUE(sum->requires_grad());
    x->ZeroGrad();
    sum->Backward(Tensor::Ones({2, 2}));
    EXPECT_EQ(x->grad()->ToVector<float>(), (Floats{2, 2}));
}

TEST(InPlace, OverwritingEndsTheGradient) {
    const auto x = Tensor::FromVector<float>({1, 2})->RequiresGrad();
    const auto source = Tensor::FromScalar(5)->RequiresGrad();
    const auto y = x->Mul(3);
    y->Copy_(source);
    y->Mul(2)->Backward(Tensor::Ones({2}));
    EXPECT_EQ(x->grad()->ToVector<float>(), (Floats{0, 0}));
    EXPECT_EQ(source->grad()->ToVector<float>(), (Floats{4}));
    const auto z = x->Mul(3);
    z->Fill_(7);
    EXPECT_EQ(z->ToVector<float>(), (Floats{7, 7}));
    x->ZeroGrad();
    z->Backward(Tensor::Ones({2}));
    EXPECT_EQ(x->grad()->ToVector<float>(), (Floats{0, 0}));
    const auto u = x->Mul(3);
    u->Uniform(1, 2);
    EXPECT_GE(u->ToVector<float>()[0], 1);
    EXPECT_TRUE(u->requires_grad());
}

TEST(InPlace, LeavesAreChangedWithoutRecordingOnly) {
    const auto x = Tensor::FromVector<float>({1, 2})->RequiresGrad();
    EXPECT_THROW(x->Add_(1), AutogradError);
    EXPECT_THROW(x->Fill_(1), AutogradError);
    EXPECT_THROW(x->Uniform(), AutogradError);
    {
        const autograd::NoGradGuard no_grad;
        x->Add_(1)->Normal(5, 0);
    }
    EXPECT_EQ(x->ToVector<float>(), (Floats{5, 5}));
    EXPECT_TRUE(x->is_leaf());
}

TEST(InPlace, SaysWhatDoesNotFit) {
    const auto x = Tensor::Ones({3}, DataType::kINT64);
    ExpectError<DtypeError>([&] { x->Add_(0.5); }, "Add_: the result is float32 and can't go into a tensor of int64");
    ExpectError<DtypeError>([&] { x->Div_(2); }, "Div_: the result is float32 and can't go into a tensor of int64");
    ExpectError<DtypeError>([&] { Tensor::Ones({1}, DataType::kBOOL)->Add_(1); },
                            "Add_: the result is int64 and can't go into a tensor of bool");
    ExpectError<ShapeError>(
        [&] {
            x->Add_(Tensor::Ones({2, 3}, DataType::kINT64));
        },
        "Add_: (2, 3) doesn't broadcast to (3,), the shape of the tensor that is changed");
    ExpectError<ShapeError>([&] { x->Copy_(Tensor::Ones({4})); }, "Copy_: (3,) and (4,) don't broadcast: 3 against 4");
    ExpectError<ValueError>([&] { x->Copy_(nullptr); }, "Copy_: the source is null");
    ExpectError<ShapeError>(
        [&] { Tensor::Ones({1})->Expand({2})->Add_(1); },
        "Add_: a tensor of shape (2,) that repeats its elements can't be changed in place; use Clone");
}

}  // namespace
}  // namespace infini_train
