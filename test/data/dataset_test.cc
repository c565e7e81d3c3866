#include "infini_train/include/dataset.h"

#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/tensor.h"

#include "test/support/tensors.h"

namespace infini_train {
namespace {

using test::Floats;
using test::Of;
using test::Thrown;
using test::Values;
using Pair = std::pair<TensorPtr, TensorPtr>;
using Indices = std::vector<int64_t>;

// Samples made by a function.
class Made : public Dataset {
public:
    Made(size_t size, std::function<Pair(size_t)> make) : size_(size), make_(std::move(make)) {}
    Pair operator[](size_t idx) const override { return make_(idx); }
    size_t Size() const override { return size_; }

private:
    size_t size_;
    std::function<Pair(size_t)> make_;
};

TEST(TensorDataset, GivesRows) {
    const auto x = Of({1, 2, 3, 4, 5, 6}, {3, 2});
    const auto y = Tensor::FromVector<int64_t>({7, 8, 9});
    const TensorDataset dataset(x, y);
    EXPECT_EQ(dataset.Size(), 3U);
    const auto [input, target] = dataset[1];
    EXPECT_EQ(Values(input), Floats({3, 4}));
    EXPECT_TRUE(target->Dims().empty());
    EXPECT_EQ(target->Item<int64_t>(), 8);
    const auto [inputs, targets] = dataset.Batch(Indices{2, 0, 2, 1});
    EXPECT_EQ(inputs->Dims(), Indices({4, 2}));
    EXPECT_EQ(Values(inputs), Floats({5, 6, 1, 2, 5, 6, 3, 4}));
    EXPECT_EQ(targets->Dtype(), DataType::kINT64);
    EXPECT_EQ(targets->ToVector<int64_t>(), Indices({9, 7, 9, 8}));
    EXPECT_EQ(dataset.Batch({}).first->Dims(), Indices({0, 2}));
}

TEST(TensorDataset, TakesAnyDataTypeAndStrides) {
    const auto pixels = Tensor::FromVector<uint8_t>({1, 2, 3, 4, 5, 6, 7, 8}, std::vector<int64_t>{2, 2, 2});
    const auto columns = Of({1, 2, 3, 4}, {2, 2})->Transpose(0, 1);
    const TensorDataset dataset(pixels, columns);
    const auto [input, target] = dataset.Batch(Indices{1, 1, 0});
    EXPECT_EQ(input->Dims(), Indices({3, 2, 2}));
    EXPECT_EQ(input->ToVector<int>(), std::vector<int>({5, 6, 7, 8, 5, 6, 7, 8, 1, 2, 3, 4}));
    EXPECT_EQ(Values(target), Floats({2, 4, 2, 4, 1, 3}));
}

TEST(TensorDataset, BatchesAreCopiesOutsideOfTheGraph) {
    const auto x = test::Leaf({1, 2});
    const TensorDataset dataset(x, Of({3, 4}));
    const auto [input, target] = dataset.Batch(Indices{0, 1});
    input->Fill_(9);
    EXPECT_EQ(Values(x), Floats({1, 2}));
    EXPECT_FALSE(input->requires_grad());
    EXPECT_FALSE(dataset[0].first->requires_grad());
}

TEST(TensorDataset, RejectsWhatDoesntMatch) {
    EXPECT_EQ(Thrown<ShapeError>([] {
                  TensorDataset(Of({1, 2}), Of({1, 2, 3}));
              }),
              "TensorDataset: inputs (2,) and targets (3,) don't match: 2 against 3 rows");
    EXPECT_EQ(Thrown<ValueError>([] { TensorDataset(Of({1}), nullptr); }), "TensorDataset: expected targets, got null");
    EXPECT_EQ(Thrown<ShapeError>([] { TensorDataset(Tensor::FromScalar(1), Of({1})); }),
              "TensorDataset: expected inputs of shape (N, ...), got ()");
    const TensorDataset dataset(Of({1, 2}), Of({1, 2}));
    EXPECT_EQ(Thrown<IndexError>([&] { dataset[2]; }), "TensorDataset: expected a sample below 2, got 2");
    EXPECT_EQ(Thrown<IndexError>([&] {
                  dataset.Batch(Indices{0, -1});
              }),
              "TensorDataset::Batch: expected a sample below 2, got -1");
}

TEST(Dataset, StacksSamples) {
    const Made dataset(10, [](size_t i) {
        const auto value = static_cast<float>(i);
        // Not contiguous: the first column of a matrix.
        return Pair{Of({value, 0, value + 0.5F, 0}, {2, 2})->Select(1, 0), Tensor::FromScalar(-value)};
    });
    const auto [inputs, targets] = dataset.Batch(Indices{3, 0});
    EXPECT_EQ(inputs->Dims(), Indices({2, 2}));
    EXPECT_EQ(Values(inputs), Floats({3, 3.5, 0, 0.5}));
    EXPECT_EQ(targets->Dims(), Indices({2}));
    EXPECT_EQ(Values(targets), Floats({-3, 0}));
}

TEST(Dataset, RejectsSamplesThatDiffer) {
    const auto batch = [](const TensorPtr &second) {
        return Made(2, [=](size_t i) { return Pair{i == 0 ? Of({1, 2}) : second, Of({1})}; }).Batch(Indices{0, 1});
    };
    EXPECT_EQ(Thrown<ShapeError>([&] { batch(Of({1})); }),
              "Dataset::Batch: the input of sample 1 has shape (1,), those before it (2,)");
    EXPECT_EQ(Thrown<DtypeError>([&] { batch(Tensor::Ones({2}, DataType::kINT64)); }),
              "Dataset::Batch: the input of sample 1 holds int64, those before it float32");
    EXPECT_EQ(Thrown<ValueError>([&] { batch(nullptr); }), "Dataset::Batch: the input of sample 1 is null");
    const Made dataset(2, [](size_t) { return Pair{Of({1}), Of({1})}; });
    EXPECT_EQ(Thrown<IndexError>([&] { dataset.Batch(Indices{2}); }),
              "Dataset::Batch: expected a sample below 2, got 2");
    EXPECT_THROW(dataset.Batch({}), ValueError);
}

}  // namespace
}  // namespace infini_train
