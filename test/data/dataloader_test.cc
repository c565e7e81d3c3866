#include "infini_train/include/dataloader.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/tensor.h"

#include "test/support/tensors.h"

namespace infini_train {
namespace {

using test::Thrown;
using Indices = std::vector<int64_t>;

static_assert(std::input_iterator<DataLoader::Iterator>);

// Inputs 0, 1, ...; targets are a hundred more.
std::shared_ptr<Dataset> Numbers(int64_t size) {
    return std::make_shared<TensorDataset>(Tensor::Arange(0, size), Tensor::Arange(100, size + 100));
}

// The inputs of one epoch, batch by batch.
std::vector<Indices> Epoch(DataLoader &loader) {
    std::vector<Indices> batches;
    for (const auto &[x, y] : loader) {
        batches.push_back(x->ToVector<int64_t>());
        Indices expected = batches.back();
        for (int64_t &value : expected) {
            value += 100;
        }
        EXPECT_EQ(y->ToVector<int64_t>(), expected);
    }
    EXPECT_EQ(batches.size(), loader.NumBatches());
    return batches;
}

Indices Joined(const std::vector<Indices> &batches) {
    Indices all;
    for (const Indices &batch : batches) {
        all.insert(all.end(), batch.begin(), batch.end());
    }
    return all;
}

TEST(DataLoader, BatchesInOrder) {
    DataLoader loader(Numbers(5), 2);
    EXPECT_EQ(loader.NumBatches(), 3U);
    EXPECT_EQ(Epoch(loader), (std::vector<Indices>{{0, 1}, {2, 3}, {4}}));
    EXPECT_EQ(Epoch(loader), (std::vector<Indices>{{0, 1}, {2, 3}, {4}}));
    DataLoader dropping(Numbers(5), 2, false, 0, true);
    EXPECT_EQ(Epoch(dropping), (std::vector<Indices>{{0, 1}, {2, 3}}));
}

TEST(DataLoader, SizesAtTheEdges) {
    DataLoader exact(Numbers(4), 2, false, 0, true);
    EXPECT_EQ(Epoch(exact).size(), 2U);
    DataLoader large(Numbers(3), 100);
    EXPECT_EQ(Epoch(large), (std::vector<Indices>{{0, 1, 2}}));
    DataLoader dropped(Numbers(3), 100, false, 0, true);
    EXPECT_EQ(Epoch(dropped).size(), 0U);
    DataLoader empty(Numbers(0), 2, true);
    EXPECT_EQ(empty.NumBatches(), 0U);
    EXPECT_EQ(Epoch(empty).size(), 0U);
}

TEST(DataLoader, ShufflesEachEpochBySeedAndNumberAlone) {
    DataLoader loader(Numbers(100), 7, true, 5);
    const Indices first = Joined(Epoch(loader));
    EXPECT_EQ(loader.epoch(), 1U);
    const Indices second = Joined(Epoch(loader));
    Indices sorted = first;
    std::sort(sorted.begin(), sorted.end());
    Indices all(100);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(sorted, all);
    EXPECT_NE(first, all);
    EXPECT_NE(second, first);

    ManualSeed(123);  // has no part in it, nor has the batch size
    DataLoader other(Numbers(100), 9, true, 5);
    other.SetEpoch(1);
    EXPECT_EQ(Joined(Epoch(other)), second);
    other.SetEpoch(0);
    EXPECT_EQ(Joined(Epoch(other)), first);
    DataLoader another_seed(Numbers(100), 7, true, 6);
    EXPECT_NE(Joined(Epoch(another_seed)), first);
}

// Each of the 24 orders of 4 samples comes up as often as any other: 100 times on average, with a deviation of 10.
TEST(DataLoader, OrdersAreUniform) {
    DataLoader loader(Numbers(4), 4, true);
    std::vector<int> counts(256);
    for (int i = 0; i < 2400; ++i) {
        const Indices order = Epoch(loader)[0];
        ++counts[static_cast<size_t>(order[0] * 64 + order[1] * 16 + order[2] * 4 + order[3])];
    }
    EXPECT_EQ(std::count(counts.begin(), counts.end(), 0), 256 - 24);
    for (const int count : counts) {
        EXPECT_TRUE(count == 0 || (count > 50 && count < 150)) << count;
    }
}

TEST(DataLoader, IteratorsOutliveTheirLoaderAndKnowTheirPlace) {
    DataLoader::Iterator iterator;
    {
        DataLoader loader(Numbers(4), 2);
        EXPECT_EQ(iterator, loader.end());
        iterator = loader.begin();
        EXPECT_NE(iterator, loader.end());
    }
    EXPECT_EQ(iterator.BatchIndex(), 0U);
    const TensorPtr x = iterator->first;
    EXPECT_EQ((*iterator).first, x);  // made once
    ++iterator;
    EXPECT_EQ(iterator.BatchIndex(), 1U);
    EXPECT_EQ(iterator->first->ToVector<int64_t>(), Indices({2, 3}));
    EXPECT_EQ(x->ToVector<int64_t>(), Indices({0, 1}));
    ++iterator;
    EXPECT_EQ(iterator, DataLoader::Iterator());
    ++iterator;
    EXPECT_EQ(iterator.BatchIndex(), 2U);
    EXPECT_EQ(Thrown<IndexError>([&] { *iterator; }), "DataLoader: expected a batch, got the end");
}

// Counts the batches it makes, and fails at one.
class Failing : public Dataset {
public:
    std::pair<TensorPtr, TensorPtr> operator[](size_t idx) const override {
        ++asked;
        if (idx == 2) {
            throw IoError("Failing: sample 2");
        }
        return {Tensor::FromScalar(1), Tensor::FromScalar(1)};
    }
    size_t Size() const override { return 6; }

    mutable int asked = 0;
};

TEST(DataLoader, ASkippedBatchIsNotMade) {
    const auto dataset = std::make_shared<Failing>();
    DataLoader loader(dataset, 2);
    auto iterator = loader.begin();
    EXPECT_EQ(dataset->asked, 0);
    ++iterator;
    EXPECT_EQ(Thrown<IoError>([&] { *iterator; }), "Failing: sample 2");
    ++iterator;
    EXPECT_EQ(iterator->first->Dims(), Indices({2}));
    EXPECT_EQ(dataset->asked, 3);
}

TEST(DataLoader, RejectsWhatMakesNoSense) {
    EXPECT_EQ(Thrown<ValueError>([] { DataLoader(nullptr, 2); }), "DataLoader: expected a dataset, got null");
    EXPECT_EQ(Thrown<ValueError>([] { DataLoader(Numbers(2), 0); }),
              "DataLoader: expected a batch size of at least 1, got 0");
    EXPECT_EQ(Thrown<ValueError>([] { DataLoader(Numbers(2), static_cast<size_t>(-3)); }),
              "DataLoader: expected a batch size of at least 1, got -3");
}

}  // namespace
}  // namespace infini_train
