#include "infini_train/include/autograd/view.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/no_op.h"
#include "infini_train/include/autograd/transform.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/tensor.h"

#include "test/operators/derivative.h"

namespace infini_train {
namespace {

using test::ExpectDerivatives;
using test::ExpectError;
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

TEST(View, KeepsTheOrderAndTheStorage) {
    const auto x = Count({2, 6});
    const auto y = x->View({3, -1});
    ExpectTensor(y, {3, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
    EXPECT_EQ(y->storage(), x->storage());
    EXPECT_NE(x->View({2, 6}), x);
    ExpectTensor(Tensor::FromScalar(7)->View({1, 1}), {1, 1}, {7});
    ExpectTensor(Count({0, 3})->View({-1, 6}), {0, 6}, {});
}

TEST(View, TakesStridesThatAllowIt) {
    const auto x = Count({4, 6})->Slice(1, 0, 4);  // rows of 4 with a stride of 6
    ExpectTensor(x->View({2, 2, 2, 2}), {2, 2, 2, 2}, {0, 1, 2, 3, 6, 7, 8, 9, 12, 13, 14, 15, 18, 19, 20, 21});
    ExpectError<ShapeError>([&] { x->View({16}); },
                            "View: (4, 4) with strides (6, 1) can't be seen as (16,) without a copy; use Reshape");
    ExpectError<ShapeError>([&] { x->View({3, 5}); }, "View: 16 elements don't fill (3, 5)");
    ExpectError<ShapeError>([&] { x->View({-1, 5}); }, "View: 16 elements don't fill (-1, 5)");
    ExpectError<ShapeError>([&] { x->View({-1, -1}); }, "View: expected at most one -1, got (-1, -1)");
}

TEST(Reshape, CopiesWhereItMust) {
    const auto x = Count({2, 3})->Transpose(0, 1);
    const auto y = x->Reshape({6});
    ExpectTensor(y, {6}, {0, 3, 1, 4, 2, 5});
    EXPECT_NE(y->storage(), x->storage());
    EXPECT_EQ(x->Reshape({3, 1, 2})->storage(), x->storage());
    EXPECT_EQ(std::make_shared<autograd::NoOp>(Dims{6})->Apply({x})[0]->ToVector<int64_t>(), y->ToVector<int64_t>());
    ExpectError<ShapeError>([&] { std::make_shared<autograd::NoOp>(Dims{4})->Apply({x}); },
                            "NoOp: 6 elements don't fill (4,)");
}

TEST(Transpose, SwapsDimensions) {
    const auto x = Count({2, 3, 2});
    ExpectTensor(x->Transpose(0, -1), {2, 3, 2}, {0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11});
    ExpectTensor(x->Transpose(1, 1), {2, 3, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
    ExpectTensor(Tensor::FromScalar(3)->Transpose(0, -1), {}, {3});
    ExpectError<IndexError>([&] { x->Transpose(0, 3); }, "Transpose: dim 3 is out of range for 3 dimensions");
}

TEST(Permute, ReordersDimensions) {
    const auto x = Count({2, 3, 4});
    const auto y = x->Permute({2, 0, -2});
    EXPECT_EQ(y->Dims(), (Dims{4, 2, 3}));
    for (int64_t i = 0; i < 4; ++i) {
        for (int64_t j = 0; j < 2; ++j) {
            for (int64_t k = 0; k < 3; ++k) {
                EXPECT_EQ(y->Select(0, i)->Select(0, j)->Select(0, k)->Item<int64_t>(), j * 12 + k * 4 + i);
            }
        }
    }
    ExpectError<ShapeError>(
        [&] {
            x->Permute({0, 1});
        },
        "Permute: expected an order of 3 dimensions for (2, 3, 4), got (0, 1)");
    ExpectError<ValueError>([&] { x->Permute({0, 1, -2}); }, "Permute: dim 1 is given twice");
    ExpectError<IndexError>([&] { x->Permute({0, 1, 3}); }, "Permute: dim 3 is out of range for 3 dimensions");
}

TEST(Slice, FollowsPython) {
    constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
    constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
    const auto x = Count({10});
    ExpectTensor(x->Slice(0, 2, 5), {3}, {2, 3, 4});
    ExpectTensor(x->Slice(0, -3, kMax), {3}, {7, 8, 9});
    ExpectTensor(x->Slice(-1, kMin, -7), {3}, {0, 1, 2});
    ExpectTensor(x->Slice(0, 1, 9, 3), {3}, {1, 4, 7});
    ExpectTensor(x->Slice(0, 1, 8, 3), {3}, {1, 4, 7});
    ExpectTensor(x->Slice(0, 1, 7, 3), {2}, {1, 4});
    ExpectTensor(x->Slice(0, 0, kMax, kMax), {1}, {0});
    ExpectTensor(x->Slice(0, 6, 3), {0}, {});
    ExpectTensor(x->Slice(0, 20, 30), {0}, {});
    ExpectTensor(Count({3, 4})->Slice({0, 1}, {3, 4}, {2, 2}), {2, 2}, {1, 3, 9, 11});
    EXPECT_EQ(x->Slice(0, 2, 5)->storage(), x->storage());
    ExpectError<IndexError>([&] { Count({2, 2})->Slice(3, 0, 1); }, "Slice: dim 3 is out of range for 2 dimensions");
    ExpectError<ValueError>([&] { x->Slice(0, 0, 4, 0); },
                            "Slice: expected a step of at least 1, got 0 for dimension 0");
    ExpectError<ShapeError>(
        [&] {
            x->Slice(Dims{0}, Dims{1, 2}, Dims{1});
        },
        "Slice: expected 1 starts, ends and steps for (10,), got 1, 2 and 1");
    ExpectError<ShapeError>([&] { Tensor::FromScalar(1)->Slice(0, 0, 1); },
                            "Slice: expected at least one dimension, got ()");
}

TEST(Select, TakesOnePosition) {
    const auto x = Count({3, 4});
    ExpectTensor(x->Select(0, 1), {4}, {4, 5, 6, 7});
    ExpectTensor(x->Select(-1, -1), {3}, {3, 7, 11});
    ExpectError<IndexError>([&] { x->Select(1, 5); }, "Select: index 5 is out of range for dimension 1 of size 4");
    ExpectError<IndexError>([&] { x->Select(1, -5); }, "Select: index -5 is out of range for dimension 1 of size 4");
    ExpectError<ShapeError>([&] { Tensor::FromScalar(1)->Select(0, 0); },
                            "Select: expected at least one dimension, got ()");
}

TEST(Narrow, DoesNotClip) {
    const auto x = Count({2, 5});
    ExpectTensor(x->Narrow(1, 1, 3), {2, 3}, {1, 2, 3, 6, 7, 8});
    ExpectTensor(x->Narrow(1, -2, 2), {2, 2}, {3, 4, 8, 9});
    ExpectTensor(x->Narrow(1, 5, 0), {2, 0}, {});
    ExpectTensor(x->Narrow(0, 0, 2), {2, 5}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
    ExpectError<IndexError>([&] { x->Narrow(1, 2, 4); },
                            "Narrow: 4 positions from 2 on reach outside of dimension 1 of size 5");
    ExpectError<IndexError>([&] { x->Narrow(1, 2, std::numeric_limits<int64_t>::max()); },
                            "Narrow: 9223372036854775807 positions from 2 on reach outside of dimension 1 of size 5");
    EXPECT_THROW(x->Narrow(1, -6, 1), IndexError);
    EXPECT_THROW(x->Narrow(1, 0, -1), IndexError);
}

TEST(Expand, RepeatsWithoutCopying) {
    const auto x = Count({2, 1});
    const auto y = x->Expand({3, -1, 2});
    ExpectTensor(y, {3, 2, 2}, {0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1});
    EXPECT_EQ(y->storage(), x->storage());
    ExpectTensor(x->Expand({2, 0}), {2, 0}, {});
    ExpectTensor(Tensor::FromScalar(4)->Expand({2}), {2}, {4, 4});
    ExpectError<ShapeError>([&] { x->Expand({3, 2}); }, "Expand: (2, 1) doesn't expand to (3, 2): 2 against 3");
    ExpectError<ShapeError>([&] { x->Expand({2}); }, "Expand: (2, 1) doesn't expand to (2,): it has more dimensions");
    ExpectError<ShapeError>(
        [&] {
            x->Expand({-1, 2, 1});
        },
        "Expand: expected a size for the new dimension 0 of (-1, 2, 1), got -1");
}

TEST(Squeeze, DropsOnlySizeOne) {
    const auto x = Count({1, 3, 1});
    EXPECT_EQ(x->Squeeze()->Dims(), (Dims{3}));
    EXPECT_EQ(x->Squeeze(0)->Dims(), (Dims{3, 1}));
    EXPECT_EQ(x->Squeeze(-1)->Dims(), (Dims{1, 3}));
    EXPECT_EQ(x->Squeeze(1)->Dims(), (Dims{1, 3, 1}));
    EXPECT_EQ(Tensor::FromScalar(1)->Squeeze(0)->Dims(), Dims{});
    ExpectError<IndexError>([&] { x->Squeeze(3); }, "Squeeze: dim 3 is out of range for 3 dimensions");
}

TEST(Unsqueeze, AddsSizeOne) {
    const auto x = Count({2, 3})->Transpose(0, 1);
    ExpectTensor(x->Unsqueeze(0), {1, 3, 2}, {0, 3, 1, 4, 2, 5});
    ExpectTensor(x->Unsqueeze(1), {3, 1, 2}, {0, 3, 1, 4, 2, 5});
    ExpectTensor(x->Unsqueeze(-1), {3, 2, 1}, {0, 3, 1, 4, 2, 5});
    EXPECT_TRUE(Count({2, 3})->Unsqueeze(1)->IsContiguous());
    ExpectError<IndexError>([&] { x->Unsqueeze(3); }, "Unsqueeze: dim 3 is out of range for 3 places");
}

TEST(Flatten, MergesDimensions) {
    const auto x = Count({2, 3, 4});
    EXPECT_EQ(x->Flatten()->Dims(), (Dims{24}));
    EXPECT_EQ(x->Flatten(1)->Dims(), (Dims{2, 12}));
    EXPECT_EQ(x->Flatten(0, 1)->Dims(), (Dims{6, 4}));
    EXPECT_EQ(x->Flatten(1, 1)->Dims(), (Dims{2, 3, 4}));
    EXPECT_EQ(Tensor::FromScalar(1)->Flatten()->Dims(), (Dims{1}));
    ExpectTensor(Count({2, 3})->Transpose(0, 1)->Flatten(), {6}, {0, 3, 1, 4, 2, 5});
    ExpectError<ValueError>([&] { x->Flatten(2, 1); }, "Flatten: expected start <= end, got dimensions 2 and 1");
}

TEST(Split, CutsIntoViews) {
    const auto x = Count({2, 5});
    const auto pieces = x->Split(2, 1);
    ASSERT_EQ(pieces.size(), 3U);
    ExpectTensor(pieces[0], {2, 2}, {0, 1, 5, 6});
    ExpectTensor(pieces[2], {2, 1}, {4, 9});
    EXPECT_EQ(pieces[1]->storage(), x->storage());
    EXPECT_EQ(x->Split(9, 1).size(), 1U);
    ASSERT_EQ(Count({0, 2})->Split(3).size(), 1U);
    ExpectError<ValueError>([&] { x->Split(0); }, "Split: expected pieces of at least one position, got 0");
    ExpectError<IndexError>([&] { x->Split(1, 2); }, "Split: dim 2 is out of range for 2 dimensions");
}

TEST(Unbind, GivesEveryPosition) {
    const auto rows = Count({2, 3})->Unbind(-1);
    ASSERT_EQ(rows.size(), 3U);
    ExpectTensor(rows[2], {2}, {2, 5});
    EXPECT_TRUE(Count({2, 0})->Unbind(1).empty());
    ExpectError<ShapeError>([&] { Tensor::FromScalar(1)->Unbind(); },
                            "Unbind: expected at least one dimension, got ()");
}

TEST(Contiguous, CopiesOnlyStridedTensors) {
    const auto x = Count({2, 3});
    EXPECT_EQ(x->Contiguous(), x);
    const auto y = x->Transpose(0, 1)->Contiguous();
    EXPECT_TRUE(y->IsContiguous());
    ExpectTensor(y, {3, 2}, {0, 3, 1, 4, 2, 5});
}

TEST(Views, AreOfEveryDataType) {
    for (const DataType dtype : test::kAllDataTypes) {
        const auto x = Tensor::FromVector<int64_t>({0, 1, 1, 0, 1, 0}, Dims{2, 3})->To(dtype);
        const auto y = x->Transpose(0, 1)->Slice(0, 1, 3);
        EXPECT_EQ(y->Dtype(), dtype);
        ExpectTensor(y->Contiguous(), {2, 2}, {1, 1, 1, 0});
    }
}

TEST(Views, HaveDerivatives) {
    const TensorList x{test::NoiseTensor({2, 3, 4}, 1)};
    ExpectDerivatives([](const TensorList &in) { return in[0]->View({4, 6}); }, x);
    ExpectDerivatives([](const TensorList &in) { return in[0]->Transpose(0, 2)->Reshape({3, 8}); }, x);
    ExpectDerivatives([](const TensorList &in) { return in[0]->Permute({2, 0, 1}); }, x);
    ExpectDerivatives([](const TensorList &in) { return in[0]->Slice(1, 1, 3); }, x);
    ExpectDerivatives([](const TensorList &in) { return in[0]->Slice(2, 1, 4, 2); }, x);
    ExpectDerivatives([](const TensorList &in) { return in[0]->Slice({0, 0, 1}, {2, 2, 4}, {1, 1, 2}); }, x);
    ExpectDerivatives([](const TensorList &in) { return in[0]->Slice({0, 0, 0}, {2, 3, 4}, {1, 1, 1}); }, x);
    ExpectDerivatives([](const TensorList &in) { return in[0]->Select(1, 1); }, x);
    ExpectDerivatives([](const TensorList &in) { return in[0]->Narrow(2, 1, 2); }, x);
    ExpectDerivatives([](const TensorList &in) { return in[0]->Narrow(2, 0, 4); }, x);
    ExpectDerivatives([](const TensorList &in) { return in[0]->Unsqueeze(1)->Expand({5, 2, 2, 3, 4}); }, x);
    ExpectDerivatives([](const TensorList &in) { return in[0]->Unsqueeze(0)->Squeeze(); }, x);
    ExpectDerivatives([](const TensorList &in) { return in[0]->Flatten(1); }, x);
    ExpectDerivatives([](const TensorList &in) { return in[0]->Transpose(1, 2)->Contiguous(); }, x);
    ExpectDerivatives([](const TensorList &in) { return in[0]->Split(2, 2)[1]; }, x);
    ExpectDerivatives(
        [](const TensorList &in) {
            const auto rows = in[0]->Unbind(1);
            return rows[2]->Mul(rows[0]);
        },
        x);
}

TEST(Views, GiveZeroGradientsToWhatTheyLeaveOut) {
    const auto x = Tensor::Ones({2, 5})->RequiresGrad();
    const auto pieces = x->Split(2, 1);
    pieces[1]->Mul(pieces[1])->Sum()->Backward();
    EXPECT_EQ(x->grad()->ToVector<float>(), (std::vector<float>{0, 0, 2, 2, 0, 0, 0, 2, 2, 0}));
    const auto y = Tensor::Ones({3, 2})->RequiresGrad();
    y->Select(0, 1)->Sum()->Backward();
    EXPECT_EQ(y->grad()->ToVector<float>(), (std::vector<float>{0, 0, 1, 1, 0, 0}));
}

TEST(Views, KeepTheGradientsDataType) {
    for (const DataType dtype : {DataType::kBFLOAT16, DataType::kFLOAT16, DataType::kFLOAT32, DataType::kFLOAT64}) {
        const auto x = Tensor::Ones({4, 3}, dtype)->RequiresGrad();
        x->Transpose(0, 1)->Slice(1, 0, 4, 2)->Backward(Tensor::Full({3, 2}, 2, dtype));
        EXPECT_EQ(x->grad()->Dtype(), dtype);
        EXPECT_EQ(x->grad()->ToVector<float>(), (std::vector<float>{2, 2, 2, 0, 0, 0, 2, 2, 2, 0, 0, 0}));
    }
}

TEST(Views, SayHowManyInputsTheyTake) {
    ExpectError<ValueError>([] { std::make_shared<autograd::View>(Dims{1})->Apply({}); },
                            "View: expected 1 input, got 0");
    ExpectError<ValueError>([] { std::make_shared<autograd::View>(Dims{1})->Apply({nullptr}); },
                            "View: input 0 is null");
}

}  // namespace
}  // namespace infini_train
