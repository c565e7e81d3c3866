#include "infini_train/include/autograd/transform.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/core/parallel.h"
#include "infini_train/include/tensor.h"

#include "test/operators/derivative.h"

namespace infini_train {
namespace {

using test::ExpectDerivatives;
using test::ExpectError;
using test::NoiseTensor;
using Dims = std::vector<int64_t>;
using Values = std::vector<int64_t>;

TensorPtr Count(const Dims &dims) {
    int64_t count = 1;
    for (const int64_t dim : dims) {
        count *= dim;
    }
    return Tensor::Arange(0, count)->View(dims);
}

void ExpectTensor(const TensorPtr &tensor, const Dims &dims, const Values &values) {
    EXPECT_EQ(tensor->Dims(), dims);
    EXPECT_EQ(tensor->ToVector<int64_t>(), values);
}

TensorPtr Concat(const TensorList &tensors, int64_t dim) {
    return std::make_shared<autograd::Concat>(dim)->Apply(tensors)[0];
}
TensorPtr Stack(const TensorList &tensors, int64_t dim) {
    return std::make_shared<autograd::Stack>(dim)->Apply(tensors)[0];
}

TEST(Triangle, MatchesItsDefinition) {
    for (const Dims &dims : {Dims{4, 4}, Dims{2, 3, 5}, Dims{5, 3}, Dims{1, 1}, Dims{2, 2, 1, 4}}) {
        const auto x = Count(dims);
        const int64_t rows = x->Dim(-2);
        const int64_t columns = x->Dim(-1);
        for (const int64_t diagonal : {int64_t{0}, int64_t{1}, int64_t{-1}, int64_t{7}, int64_t{-7},
                                       std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()}) {
            const auto lower = x->Tril(diagonal)->ToVector<int64_t>();
            const auto upper = x->Triu(diagonal)->ToVector<int64_t>();
            for (int64_t i = 0; i < x->NumElements(); ++i) {
                // In floating point, where column - row can't overflow.
                const auto distance = static_cast<double>(i % columns - i / columns % rows);
                const auto d = static_cast<double>(diagonal);
                EXPECT_EQ(lower[static_cast<size_t>(i)], distance <= d ? i : 0);
                EXPECT_EQ(upper[static_cast<size_t>(i)], distance >= d ? i : 0);
            }
        }
    }
}

TEST(Triangle, TakesEveryDataTypeAndAnyStrides) {
    for (const DataType dtype : test::kAllDataTypes) {
        const auto x = Tensor::Ones({3, 2}, dtype)->Transpose(0, 1);
        ExpectTensor(x->Tril(), {2, 3}, {1, 0, 0, 1, 1, 0});
        ExpectTensor(x->Triu(1), {2, 3}, {0, 1, 1, 0, 0, 1});
        EXPECT_EQ(x->Tril()->Dtype(), dtype);
    }
    ExpectTensor(Count({0, 3})->Tril(), {0, 3}, {});
    ExpectTensor(Count({3, 0})->Triu(), {3, 0}, {});
    ExpectError<ShapeError>([] { Count({3})->Tril(); }, "Tril: expected at least two dimensions, got (3,)");
    ExpectError<ShapeError>([] { Count({3})->Triu(); }, "Triu: expected at least two dimensions, got (3,)");
}

TEST(Triangle, DropsNanAndInfinity) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const auto y = Tensor::FromVector<float>({1, nan, INFINITY, 2}, Dims{2, 2})->Tril()->ToVector<float>();
    EXPECT_EQ(y[1], 0.0F);
    EXPECT_EQ(y[2], INFINITY);
}

TEST(MaskedFill, ReplacesWhereTrue) {
    const auto x = Count({2, 3});
    const auto mask = Tensor::FromVector<bool>({true, false, true, false, true, false}, Dims{2, 3});
    ExpectTensor(x->MaskedFill(mask, -1), {2, 3}, {-1, 1, -1, 3, -1, 5});
    ExpectTensor(x->MaskedFill(mask->To(DataType::kFLOAT32), -1), {2, 3}, {-1, 1, -1, 3, -1, 5});
    // Strided inputs and masks, and broadcasts of either.
    ExpectTensor(x->Transpose(0, 1)->MaskedFill(mask->Transpose(0, 1), 9), {3, 2}, {9, 3, 1, 9, 9, 5});
    ExpectTensor(x->MaskedFill(mask->Slice(0, 0, 1), 9), {2, 3}, {9, 1, 9, 9, 4, 9});
    ExpectTensor(x->MaskedFill(mask->Select(1, 0)->Unsqueeze(1), 9), {2, 3}, {9, 9, 9, 3, 4, 5});
    ExpectTensor(Count({3})->MaskedFill(mask, 9), {2, 3}, {9, 1, 9, 0, 9, 2});
    ExpectTensor(Tensor::FromScalar(5)->MaskedFill(Tensor::FromScalar(1), 2), {}, {2});
    ExpectTensor(Count({0, 3})->MaskedFill(Tensor::FromScalar(1), 2), {0, 3}, {});
    ExpectError<ShapeError>([&] { x->MaskedFill(Count({2}), 0); },
                            "Mask: (2, 3) and (2,) don't broadcast: 3 against 2");
    ExpectError<ValueError>([&] { x->MaskedFill(nullptr, 0); }, "Mask: expected a mask, got null");
}

TEST(MaskedFill, TakesEveryDataType) {
    const auto mask = Tensor::FromVector<bool>({true, false}, Dims{2});
    for (const DataType dtype : test::kAllDataTypes) {
        const auto y = Tensor::Zeros({2}, dtype)->MaskedFill(mask, 1);
        EXPECT_EQ(y->Dtype(), dtype);
        ExpectTensor(y, {2}, {1, 0});
    }
    const auto infinite = Tensor::Zeros({2}, DataType::kBFLOAT16)->MaskedFill(mask, -INFINITY)->ToVector<float>();
    EXPECT_EQ(infinite, (std::vector<float>{-INFINITY, 0}));
}

TEST(MaskedFill, IsTheSameForAnyNumberOfThreads) {
    const auto x = NoiseTensor({3, 257, 129}, 5);
    const auto mask = NoiseTensor({257, 129}, 6)->Gt(0.0);
    const int threads = GetNumThreads();
    SetNumThreads(1);
    const auto one = x->MaskedFill(mask, 0)->ToVector<double>();
    SetNumThreads(7);
    EXPECT_EQ(x->MaskedFill(mask, 0)->ToVector<double>(), one);
    SetNumThreads(threads);
    const auto values = x->ToVector<double>();
    const auto is_masked = mask->ToVector<bool>();
    for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(one[i], is_masked[i % is_masked.size()] ? 0.0 : values[i]);
    }
}

TEST(RepeatInterleave, RepeatsEachPosition) {
    const auto x = Count({2, 2});
    ExpectTensor(x->RepeatInterleave(2, 0), {4, 2}, {0, 1, 0, 1, 2, 3, 2, 3});
    ExpectTensor(x->Transpose(0, 1)->RepeatInterleave(3, -1), {2, 6}, {0, 0, 0, 2, 2, 2, 1, 1, 1, 3, 3, 3});
    ExpectTensor(x->RepeatInterleave(0, 1), {2, 0}, {});
    ExpectError<ValueError>([&] { x->RepeatInterleave(-1, 0); },
                            "RepeatInterleave: expected a number of repeats >= 0, got -1");
    ExpectError<IndexError>([&] { x->RepeatInterleave(1, 2); },
                            "RepeatInterleave: dim 2 is out of range for 2 dimensions");
}

TEST(Concat, JoinsAlongADimension) {
    const auto a = Count({2, 2});
    const auto b = Count({2, 3});
    ExpectTensor(Concat({a, b}, 1), {2, 5}, {0, 1, 0, 1, 2, 2, 3, 3, 4, 5});
    ExpectTensor(Concat({a, a}, 0), {4, 2}, {0, 1, 2, 3, 0, 1, 2, 3});
    ExpectTensor(Concat({a, a->Transpose(0, 1)}, -1), {2, 4}, {0, 1, 0, 2, 2, 3, 1, 3});
    ExpectTensor(Concat({a, Count({2, 0}), b}, 1), {2, 5}, {0, 1, 0, 1, 2, 2, 3, 3, 4, 5});
    ExpectTensor(Concat({Count({0}), a, Count({0})}, 1), {2, 2}, {0, 1, 2, 3});
    ExpectTensor(Concat({Count({0}), Count({0})}, 0), {0}, {});
    ExpectTensor(Concat({Count({0}), Count({2})}, 0), {2}, {0, 1});
    EXPECT_EQ(Concat({a, b->To(DataType::kFLOAT32)}, 1)->Dtype(), DataType::kFLOAT32);
    ExpectTensor(Concat({a, b->To(DataType::kFLOAT32)}, 1), {2, 5}, {0, 1, 0, 1, 2, 2, 3, 3, 4, 5});
    ExpectError<ShapeError>(
        [&] {
            Concat({a, b}, 0);
        },
        "Concat: (2, 2) and (2, 3) don't match along dim 0: 2 against 3");
    ExpectError<ShapeError>(
        [&] {
            Concat({a, Count({2})}, 0);
        },
        "Concat: (2, 2) and (2,) don't have the same number of dimensions");
    ExpectError<ShapeError>([&] { Concat({Tensor::FromScalar(1)}, 0); },
                            "Concat: tensors without dimensions can't be joined; use Stack");
    ExpectError<IndexError>([&] { Concat({a}, 2); }, "Concat: dim 2 is out of range for 2 dimensions");
    ExpectError<ValueError>([&] { Concat({}, 0); }, "Concat: expected at least one tensor, got none");
}

TEST(Concat, TakesEveryDataType) {
    for (const DataType dtype : test::kAllDataTypes) {
        const auto y = Concat({Tensor::Ones({2, 1}, dtype), Tensor::Zeros({2, 2}, dtype)}, 1);
        EXPECT_EQ(y->Dtype(), dtype);
        ExpectTensor(y, {2, 3}, {1, 0, 0, 1, 0, 0});
    }
}

TEST(Concat, JoinsLargePiecesOnAnyNumberOfThreads) {
    const auto a = Count({37, 11, 301});
    const auto b = Count({37, 5, 301});
    const auto c = Count({37, 1, 301});
    const int threads = GetNumThreads();
    for (const int used : {1, 2, 5}) {
        SetNumThreads(used);
        const auto y = Concat({a, b, c}, 1);
        EXPECT_EQ(y->Slice(1, 0, 11)->ToVector<int64_t>(), a->ToVector<int64_t>());
        EXPECT_EQ(y->Slice(1, 11, 16)->ToVector<int64_t>(), b->ToVector<int64_t>());
        EXPECT_EQ(y->Slice(1, 16, 17)->ToVector<int64_t>(), c->ToVector<int64_t>());
    }
    SetNumThreads(threads);
}

TEST(Stack, AddsADimension) {
    const auto a = Count({2, 2});
    ExpectTensor(Stack({a, a->Transpose(0, 1)}, 0), {2, 2, 2}, {0, 1, 2, 3, 0, 2, 1, 3});
    ExpectTensor(Stack({a, a->Transpose(0, 1)}, -1), {2, 2, 2}, {0, 0, 1, 2, 2, 1, 3, 3});
    ExpectTensor(Stack({a, a}, 1), {2, 2, 2}, {0, 1, 0, 1, 2, 3, 2, 3});
    ExpectTensor(Stack({Tensor::FromScalar(1), Tensor::FromScalar(2)}, 0), {2}, {1, 2});
    ExpectError<ShapeError>([&] { Stack({a, Count({2, 3})}, 0); }, "Stack: expected equal dims, got (2, 2) and (2, 3)");
    ExpectError<IndexError>([&] { Stack({a}, 3); }, "Stack: dim 3 is out of range for 3 places");
    ExpectError<ValueError>([&] { Stack({}, 0); }, "Stack: expected at least one tensor, got none");
}

TEST(Transforms, HaveDerivatives) {
    const auto x = NoiseTensor({2, 3, 4}, 1);
    const auto y = NoiseTensor({2, 2, 4}, 2);
    const auto mask = NoiseTensor({3, 4}, 3)->Gt(0.0);
    ExpectDerivatives([](const TensorList &in) { return in[0]->Tril(1); }, {x});
    ExpectDerivatives([](const TensorList &in) { return in[0]->Triu(-1); }, {x});
    ExpectDerivatives([&](const TensorList &in) { return in[0]->MaskedFill(mask, 3); }, {x});
    ExpectDerivatives([&](const TensorList &in) { return in[0]->MaskedFill(mask, 3); }, {NoiseTensor({1, 4}, 4)});
    ExpectDerivatives([](const TensorList &in) { return in[0]->RepeatInterleave(3, 1); }, {x});
    ExpectDerivatives([](const TensorList &in) { return in[0]->Transpose(0, 2)->RepeatInterleave(2, 0); }, {x});
    ExpectDerivatives([](const TensorList &in) { return Concat({in[0], in[1], in[0]}, 1); }, {x, y});
    ExpectDerivatives(
        [](const TensorList &in) {
            return Stack({in[0], in[0]->Transpose(0, 1)}, 2);
        },
        {NoiseTensor({3, 3}, 5)});
}

TEST(Transforms, GiveGradientsOfTheInputsDataType) {
    const auto a = Tensor::Ones({2}, DataType::kFLOAT16)->RequiresGrad();
    const auto b = Tensor::Ones({3}, DataType::kFLOAT64)->RequiresGrad();
    const auto none = Tensor::Ones({0})->RequiresGrad();
    Concat({a, b, none}, 0)->Backward(Tensor::Arange(0, 5, 1, DataType::kFLOAT64));
    EXPECT_EQ(a->grad()->Dtype(), DataType::kFLOAT16);
    EXPECT_EQ(a->grad()->ToVector<float>(), (std::vector<float>{0, 1}));
    EXPECT_EQ(b->grad()->ToVector<float>(), (std::vector<float>{2, 3, 4}));
    EXPECT_EQ(none->grad()->Dims(), (Dims{0}));
    const auto c = Tensor::Ones({2, 1})->RequiresGrad();
    const auto empty = Tensor::Ones({0})->RequiresGrad();
    Concat({c, empty}, 1)->Backward(Tensor::Ones({2, 1}));
    EXPECT_EQ(empty->grad()->Dims(), (Dims{0}));
    const auto d = Tensor::Ones({2, 3})->RequiresGrad();
    d->RepeatInterleave(0, 1)->Backward(Tensor::Ones({2, 0}));
    EXPECT_EQ(d->grad()->ToVector<float>(), std::vector<float>(6, 0));
}

}  // namespace
}  // namespace infini_train
