// Gather, Scatter and Embedding.

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/gather.h"
#include "infini_train/include/autograd/scatter.h"
#include "infini_train/include/autograd/sparse.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/core/allocator.h"
#include "infini_train/include/core/parallel.h"
#include "infini_train/include/nn/functional.h"
#include "infini_train/include/tensor.h"

#include "test/operators/derivative.h"
#include "test/operators/near.h"

namespace infini_train {
namespace {

using test::ExpectDerivatives;
using test::ExpectError;
using test::NoiseTensor;
using Dims = std::vector<int64_t>;

constexpr DataType kIntegerTypes[] = {DataType::kUINT8,  DataType::kINT8,  DataType::kUINT16, DataType::kINT16,
                                      DataType::kUINT32, DataType::kINT32, DataType::kUINT64, DataType::kINT64};

TensorPtr Index(const std::vector<int64_t> &values, const Dims &dims) {
    return Tensor::FromVector<int64_t>(values, dims);
}
TensorPtr Scatter(const TensorPtr &values, const TensorPtr &index, const Dims &dims, int64_t dim = -1) {
    return std::make_shared<autograd::Scatter>(dims, dim)->Apply({values, index})[0];
}
TensorPtr Embedding(const TensorPtr &index, const TensorPtr &weight) {
    return std::make_shared<autograd::Embedding>()->Apply({index, weight})[0];
}

// Indices below `limit` that repeat often.
TensorPtr NoiseIndex(const Dims &dims, int64_t limit, uint64_t seed) {
    auto values = NoiseTensor(dims, seed)->ToVector<double>();
    std::vector<int64_t> index;
    for (const double value : values) {
        index.push_back(static_cast<int64_t>((value + 1) / 2 * static_cast<double>(limit)));
    }
    return Index(index, dims);
}

// What Gather and Scatter have to do, one element after the other, on tensors of three dimensions.
template <typename Visit>
void ForEachLookup(const Dims &dims, const std::vector<int64_t> &index, int64_t dim, const Dims &other, Visit visit) {
    for (int64_t i = 0, at = 0; i < dims[0]; ++i) {
        for (int64_t j = 0; j < dims[1]; ++j) {
            for (int64_t k = 0; k < dims[2]; ++k, ++at) {
                int64_t position[3] = {i, j, k};
                position[dim] = index[static_cast<size_t>(at)];
                visit(static_cast<size_t>(at),
                      static_cast<size_t>((position[0] * other[1] + position[1]) * other[2] + position[2]));
            }
        }
    }
}

TEST(Gather, PicksByIndex) {
    const auto x = Tensor::Arange(0, 6)->View({2, 3});
    for (const DataType dtype : kIntegerTypes) {
        const auto index = Index({2, 0, 1, 1}, {2, 2})->To(dtype);
        EXPECT_EQ(x->Gather(1, index)->ToVector<int64_t>(), (std::vector<int64_t>{2, 0, 4, 4}));
        EXPECT_EQ(x->Gather(1, index->Transpose(0, 1))->ToVector<int64_t>(), (std::vector<int64_t>{2, 1, 3, 4}));
    }
    EXPECT_EQ(x->Transpose(0, 1)->Gather(-1, Index({1, 0}, {2, 1}))->ToVector<int64_t>(), (std::vector<int64_t>{3, 1}));
    EXPECT_EQ(x->Gather(0, Index({1, 0, 1}, {1, 3}))->ToVector<int64_t>(), (std::vector<int64_t>{3, 1, 5}));
    EXPECT_EQ(x->Gather(0, Index({}, {0, 3}))->Dims(), (Dims{0, 3}));
    EXPECT_EQ(Tensor::FromScalar(5)->Gather(0, Tensor::FromScalar(0, DataType::kINT64))->Item<int>(), 5);
    for (const DataType dtype : test::kAllDataTypes) {
        const auto y = Tensor::FromVector<int64_t>({0, 1, 1})->To(dtype)->Gather(0, Index({2, 0}, {2}));
        EXPECT_EQ(y->Dtype(), dtype);
        EXPECT_EQ(y->ToVector<int64_t>(), (std::vector<int64_t>{1, 0}));
    }
}

TEST(Gather, SaysWhatIsWrong) {
    const auto x = Tensor::Zeros({2, 3});
    ExpectError<IndexError>(
        [&] {
            x->Gather(1, Index({0, 1, 2, 3}, {2, 2}));
        },
        "Gather: index 3 at (1, 1) is out of range for dimension 1 of size 3");
    ExpectError<IndexError>(
        [&] {
            x->Gather(1, Index({0, -1}, {2, 1}));
        },
        "Gather: index -1 at (1, 0) is out of range for dimension 1 of size 3");
    ExpectError<IndexError>(
        [&] {
            x->Gather(1, Tensor::FromVector<uint64_t>({0, 18446744073709551615U}, Dims{2, 1}));
        },
        "Gather: index 18446744073709551615 at (1, 0) is out of range for dimension 1 of size 3");
    ExpectError<IndexError>(
        [&] {
            Tensor::Zeros({2, 0})->Gather(1, Index({0}, {1, 1}));
        },
        "Gather: index 0 at (0, 0) is out of range for dimension 1 of size 0");
    ExpectError<ShapeError>([&] { x->Gather(1, Index({0}, {1})); },
                            "Gather: (2, 3) and an index of (1,) don't have the same number of dimensions");
    ExpectError<ShapeError>(
        [&] {
            x->Gather(1, Index({0, 0, 0}, {3, 1}));
        },
        "Gather: an index of (3, 1) reaches outside of (2, 3): 3 against 2");
    ExpectError<DtypeError>(
        [&] {
            x->Gather(1, Tensor::Zeros({2, 1}));
        },
        "Gather: expected an index of an integer type, got float32");
    ExpectError<IndexError>(
        [&] {
            x->Gather(2, Index({0, 0}, {2, 1}));
        },
        "Gather: dim 2 is out of range for 2 dimensions");
    ExpectError<ValueError>([&] { x->Gather(0, nullptr); }, "Gather: input 1 is null");
}

TEST(Scatter, SumsAtTheIndex) {
    const auto values = Tensor::FromVector<float>({1, 2, 3, 4, 5, 6}, Dims{2, 3});
    const auto index = Index({0, 3, 0, 1, 1, 1}, {2, 3});
    EXPECT_EQ(Scatter(values, index, {2, 4})->ToVector<float>(), (std::vector<float>{4, 0, 0, 2, 0, 15, 0, 0}));
    EXPECT_EQ(Scatter(values, Index({0, 0, 1, 0, 1, 1}, {2, 3}), {2, 4}, 0)->ToVector<float>(),
              (std::vector<float>{5, 2, 0, 0, 0, 5, 9, 0}));
    EXPECT_EQ(Scatter(Tensor::FromScalar(3), Tensor::FromScalar(0, DataType::kINT64), {})->Item<int>(), 3);
    EXPECT_EQ(Scatter(Tensor::Zeros({2, 0}), Index({}, {2, 0}), {2, 2})->ToVector<float>(),
              std::vector<float>(4, 0.0F));
    for (const DataType dtype : test::kAllDataTypes) {
        const auto y = Scatter(Tensor::Ones({3}, dtype), Index({2, 2, 0}, {3}), {4});
        EXPECT_EQ(y->Dtype(), dtype);
        const int64_t two = dtype == DataType::kBOOL ? 1 : 2;
        EXPECT_EQ(y->ToVector<int64_t>(), (std::vector<int64_t>{1, 0, two, 0}));
    }
    // 1 is lost in bfloat16 beyond 256.
    EXPECT_EQ(
        Scatter(Tensor::Ones({512}, DataType::kBFLOAT16), Tensor::Zeros({512}, DataType::kINT64), {1})->Item<float>(),
        512.0F);
}

TEST(Scatter, SaysWhatIsWrong) {
    const auto values = Tensor::Zeros({2, 3});
    ExpectError<IndexError>(
        [&] {
            Scatter(values, Index({0, 0, 0, 0, 4, 0}, {2, 3}), {2, 4});
        },
        "Scatter: index 4 at (1, 1) is out of range for dimension 1 of size 4");
    ExpectError<ShapeError>(
        [&] {
            Scatter(values, Index({0, 0}, {2, 1}), {2, 4});
        },
        "Scatter: values of (2, 3) and an index of (2, 1) don't match");
    ExpectError<ShapeError>(
        [&] {
            Scatter(values, Tensor::Zeros({2, 3}, DataType::kINT64), {1, 4});
        },
        "Scatter: an index of (2, 3) reaches outside of (1, 4): 2 against 1");
    ExpectError<DtypeError>(
        [&] {
            Scatter(values, values, {2, 4});
        },
        "Scatter: expected an index of an integer type, got float32");
}

TEST(Lookup, MatchesPlainLoopsOnAnyNumberOfThreads) {
    const Dims large{23, 19, 31};
    const int threads = GetNumThreads();
    for (int64_t dim = 0; dim < 3; ++dim) {
        Dims dims{21, 17, 30};
        dims[static_cast<size_t>(dim)] = 40;
        const auto index = NoiseIndex(dims, large[static_cast<size_t>(dim)], 11);
        const auto at = index->ToVector<int64_t>();
        const auto x = NoiseTensor(large, 12);
        const auto values = NoiseTensor(dims, 13);
        const auto x_values = x->ToVector<double>();
        const auto value_list = values->ToVector<double>();
        std::vector<double> gathered(at.size());
        std::vector<double> scattered(x_values.size(), 0);
        ForEachLookup(dims, at, dim, large, [&](size_t small, size_t big) {
            gathered[small] = x_values[big];
            scattered[big] += value_list[small];
        });
        for (const int used : {1, 2, 7}) {
            SetNumThreads(used);
            EXPECT_EQ(x->Gather(dim, index)->ToVector<double>(), gathered);
            EXPECT_EQ(Scatter(values, index, large, dim)->ToVector<double>(), scattered);
        }
    }
    SetNumThreads(threads);
}

TEST(Lookup, HasDerivatives) {
    const auto index = Index({2, 0, 2, 1, 1, 1}, {2, 3});
    ExpectDerivatives([&](const TensorList &in) { return in[0]->Gather(1, index); }, {NoiseTensor({2, 4}, 1)});
    ExpectDerivatives([&](const TensorList &in) { return in[0]->Gather(0, index); }, {NoiseTensor({4, 3}, 1)});
    ExpectDerivatives([&](const TensorList &in) { return Scatter(in[0], index, {2, 4}); }, {NoiseTensor({2, 3}, 1)});
    ExpectDerivatives([&](const TensorList &in) { return Scatter(in[0], index, {3, 3}, 0); }, {NoiseTensor({2, 3}, 1)});
    ExpectDerivatives([&](const TensorList &in) { return Embedding(index, in[0]); }, {NoiseTensor({5, 3}, 1)});
}

TEST(Embedding, TakesRows) {
    const auto weight = Tensor::Arange(0, 12, 1, DataType::kFLOAT32)->View({4, 3});
    for (const DataType dtype : kIntegerTypes) {
        const auto y = Embedding(Index({3, 0, 3, 1}, {2, 2})->To(dtype), weight);
        EXPECT_EQ(y->Dims(), (Dims{2, 2, 3}));
        EXPECT_EQ(y->ToVector<float>(), (std::vector<float>{9, 10, 11, 0, 1, 2, 9, 10, 11, 3, 4, 5}));
    }
    EXPECT_EQ(Embedding(Tensor::FromScalar(2, DataType::kINT32), weight)->ToVector<float>(),
              (std::vector<float>{6, 7, 8}));
    EXPECT_EQ(Embedding(Index({1, 2}, {2}), weight->Transpose(0, 1))->ToVector<float>(),
              (std::vector<float>{1, 4, 7, 10, 2, 5, 8, 11}));
    EXPECT_EQ(Embedding(Index({1}, {1}), weight->Slice(1, 0, 2))->ToVector<float>(), (std::vector<float>{3, 4}));
    EXPECT_EQ(Embedding(Index({}, {0, 2}), weight)->Dims(), (Dims{0, 2, 3}));
    EXPECT_EQ(Embedding(Index({1}, {1}), Tensor::Zeros({4, 0}))->Dims(), (Dims{1, 0}));
    for (const DataType dtype : test::kAllDataTypes) {
        const auto y = Embedding(Index({1, 0}, {2}), Tensor::FromVector<int64_t>({0, 1}, Dims{2, 1})->To(dtype));
        EXPECT_EQ(y->Dtype(), dtype);
        EXPECT_EQ(y->ToVector<int64_t>(), (std::vector<int64_t>{1, 0}));
    }
    ExpectError<IndexError>(
        [&] {
            Embedding(Index({0, 1, 4, 0}, {2, 2}), weight);
        },
        "Embedding: index 4 at (1, 0) is out of range for 4 rows");
    ExpectError<IndexError>([&] { Embedding(Tensor::FromScalar(-1, DataType::kINT64), weight); },
                            "Embedding: index -1 at () is out of range for 4 rows");
    ExpectError<DtypeError>([&] { Embedding(Tensor::Zeros({2}), weight); },
                            "Embedding: expected an index of an integer type, got float32");
    ExpectError<ShapeError>([&] { Embedding(Index({0}, {1}), Tensor::Zeros({4})); },
                            "Embedding: expected a weight of two dimensions, got (4,)");
}

TEST(Embedding, SumsTheGradientsOfARow) {
    const int threads = GetNumThreads();
    // Narrow rows, wide ones, and rows wider than a cache line times the threads.
    for (const int64_t width : {1, 7, 64, 333}) {
        const Dims dims{5, 120};
        const auto index = NoiseIndex(dims, 37, 21);
        const auto at = index->ToVector<int64_t>();
        const auto grad = NoiseTensor({5, 120, width}, 22)->To(DataType::kFLOAT32);
        const auto grads = grad->ToVector<float>();
        std::vector<float> expected(static_cast<size_t>(41 * width), 0.0F);
        for (size_t i = 0; i < at.size(); ++i) {
            for (int64_t c = 0; c < width; ++c) {
                expected[static_cast<size_t>(at[i] * width + c)] +=
                    grads[i * static_cast<size_t>(width) + static_cast<size_t>(c)];
            }
        }
        for (const int used : {1, 2, 7}) {
            SetNumThreads(used);
            const auto weight = Tensor::Zeros({41, width})->RequiresGrad();
            Embedding(index, weight)->Backward(grad);
            EXPECT_EQ(weight->grad()->ToVector<float>(), expected);
        }
    }
    SetNumThreads(threads);
}

TEST(Embedding, TakesGradientsOfAnyStridesAndNone) {
    const auto weight = Tensor::Zeros({3, 2})->RequiresGrad();
    Embedding(Index({1, 1, 0}, {3}), weight)->Backward(Tensor::FromScalar(2)->Expand({3, 2}));
    EXPECT_EQ(weight->grad()->ToVector<float>(), (std::vector<float>{2, 2, 4, 4, 0, 0}));
    weight->ZeroGrad();
    Embedding(Index({}, {0}), weight)->Backward(Tensor::Zeros({0, 2}));
    EXPECT_EQ(weight->grad()->ToVector<float>(), std::vector<float>(6, 0.0F));
    // Summed in float32: 1 is lost in bfloat16 beyond 256.
    const auto half = Tensor::Zeros({1, 1}, DataType::kBFLOAT16)->RequiresGrad();
    Embedding(Tensor::Zeros({512}, DataType::kINT64), half)->Sum()->Backward();
    EXPECT_EQ(half->grad()->Dtype(), DataType::kBFLOAT16);
    EXPECT_EQ(half->grad()->Item<float>(), 512.0F);
}

// A table that is the output layer too: its gradient comes from both ends, a large one and a few rows.
TEST(Embedding, AddsItsRowsToTheGradientThatTheOutputLayerHasSent) {
    constexpr int64_t kRows = 512, kWidth = 1024;
    const auto index = Index({3, 0, 3, 511}, {4});
    const auto grad = NoiseTensor({4, kRows}, 31)->To(DataType::kFLOAT32);
    const auto weight = NoiseTensor({kRows, kWidth}, 32)->To(DataType::kFLOAT32)->Detach()->RequiresGrad();
    // Its own gradient by itself, and that of the output layer by itself.
    const auto rows = Embedding(index, weight->Detach())->RequiresGrad();
    nn::function::Linear(rows, weight)->Backward(grad);
    const auto from_output = weight->grad()->ToVector<float>();
    auto expected = from_output;
    const auto own = rows->grad()->ToVector<float>();
    const auto at = index->ToVector<int64_t>();
    for (size_t i = 0; i < at.size(); ++i) {
        for (int64_t c = 0; c < kWidth; ++c) {
            expected[static_cast<size_t>(at[i] * kWidth + c)] += own[i * kWidth + static_cast<size_t>(c)];
        }
    }
    const auto run = [&](const std::function<void(autograd::Function &)> &prepare) {
        weight->ZeroGrad();
        const auto embedding = std::make_shared<autograd::Embedding>();
        prepare(*embedding);
        const auto logits = nn::function::Linear(embedding->Apply({index, weight})[0], weight);
        Allocator &allocator = GetAllocator(Device());
        allocator.ResetPeak();
        const size_t before = allocator.Stats().live;
        logits->Backward(grad);
        return allocator.Stats().peak - before;
    };
    const size_t table = kRows * kWidth * sizeof(float);
    EXPECT_LT(run([](autograd::Function &) {}), 2 * table);
    EXPECT_EQ(weight->grad()->ToVector<float>(), expected);

    // Whoever looks at the function sees its own gradient, so that has a tensor of its own.
    std::vector<float> seen;
    EXPECT_GE(
        run([&](autograd::Function &function) {
            function.RegisterBackwardPostHook([&](autograd::Function *, const TensorList &grads, const TensorList &) {
                seen = grads[1]->Select(0, 511)->ToVector<float>();
            });
        }),
        2 * table);
    EXPECT_EQ(seen, std::vector<float>(own.begin() + 3 * kWidth, own.end()));
    test::ExpectNear(weight->grad(), std::vector<double>(expected.begin(), expected.end()), 1e-6, "shared weight");

    // A gradient that somebody else holds stays as it was.
    const auto doubled = weight->Detach()->RequiresGrad();
    const auto shared = doubled->Mul(1);
    const auto held = NoiseTensor({kRows, kWidth}, 33)->To(DataType::kFLOAT32);
    const auto copy = held->ToVector<float>();
    const auto loss = Embedding(index, shared)->Sum()->Add(shared->Mul(held)->Sum());
    loss->Backward();
    EXPECT_EQ(held->ToVector<float>(), copy);
    std::vector<double> with_rows(copy.begin(), copy.end());
    for (const int64_t row : at) {
        for (int64_t c = 0; c < kWidth; ++c) {
            with_rows[static_cast<size_t>(row * kWidth + c)] += 1;
        }
    }
    test::ExpectNear(doubled->grad(), with_rows, 1e-6, "held gradient");
}

}  // namespace
}  // namespace infini_train
