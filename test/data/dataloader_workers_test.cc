// DataLoader with threads that work ahead, and its state.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/core/parallel.h"
#include "infini_train/include/dataloader.h"
#include "infini_train/include/tensor.h"

#include "test/support/tensors.h"

namespace infini_train {
namespace {

using test::Contains;
using test::Thrown;
using Indices = std::vector<int64_t>;

// Samples are their numbers. Some take longer than others; number `bad` can't be had.
class Uneven : public Dataset {
public:
    explicit Uneven(size_t size, int64_t bad = -1) : size_(size), bad_(bad) {}

    std::pair<TensorPtr, TensorPtr> operator[](size_t idx) const override {
        const auto index = static_cast<int64_t>(idx);
        if (index == bad_) {
            throw IoError("Uneven: sample " + std::to_string(bad_));
        }
        if (index % 3 == 0) {
            std::this_thread::sleep_for(std::chrono::microseconds(300));
        }
        ++made;
        return {Tensor::FromScalar(index, DataType::kINT64), Tensor::FromScalar(-index, DataType::kINT64)};
    }
    size_t Size() const override { return size_; }

    mutable std::atomic<int> made{0};

private:
    size_t size_;
    int64_t bad_;
};

Indices Inputs(const DataLoader::Batch &batch) {
    Indices inputs = batch.first->ToVector<int64_t>();
    Indices targets = batch.second->ToVector<int64_t>();
    for (size_t i = 0; i < inputs.size(); ++i) {
        EXPECT_EQ(targets[i], -inputs[i]);
    }
    return inputs;
}

std::vector<Indices> Rest(DataLoader &loader) {
    std::vector<Indices> batches;
    for (const auto &batch : loader) {
        batches.push_back(Inputs(batch));
    }
    return batches;
}

TEST(DataLoaderWorkers, TheSameBatchesForAnyNumberOfWorkers) {
    const auto dataset = std::make_shared<Uneven>(61);
    for (const bool shuffle : {false, true}) {
        DataLoader alone(dataset, 4, shuffle, 9);
        const std::vector<Indices> first = Rest(alone);
        const std::vector<Indices> second = Rest(alone);
        EXPECT_EQ(first.size(), 16U);
        for (const size_t workers : {1, 2, 8, 40}) {
            for (const size_t prefetch : {1, 5}) {
                DataLoader loader(dataset, 4, shuffle, 9, false, workers, prefetch);
                EXPECT_EQ(Rest(loader), first) << workers;
                EXPECT_EQ(Rest(loader), second) << workers;
            }
        }
    }
    DataLoader empty(std::make_shared<Uneven>(0), 2, false, 0, false, 3);
    EXPECT_EQ(Rest(empty).size(), 0U);
}

TEST(DataLoaderWorkers, AnExceptionArrivesAtItsBatch) {
    for (const size_t workers : {0, 1, 2, 8}) {
        const auto dataset = std::make_shared<Uneven>(20, 9);
        DataLoader loader(dataset, 2, false, 0, false, workers);
        auto batch = loader.begin();
        for (int64_t i = 0; i < 4; ++i, ++batch) {
            EXPECT_EQ(Inputs(*batch), Indices({2 * i, 2 * i + 1}));
        }
        EXPECT_EQ(Thrown<IoError>([&] { *batch; }), "Uneven: sample 9") << workers;
        EXPECT_EQ(Thrown<IoError>([&] { *batch; }), "Uneven: sample 9") << workers;
        // The others aren't lost.
        ++batch;
        for (int64_t i = 5; i < 10; ++i, ++batch) {
            EXPECT_EQ(Inputs(*batch), Indices({2 * i, 2 * i + 1}));
        }
        EXPECT_EQ(batch, loader.end());
    }
}

TEST(DataLoaderWorkers, SkippedBatchesTakeNoPlace) {
    const auto dataset = std::make_shared<Uneven>(40, 4);
    DataLoader loader(dataset, 2, false, 0, false, 2, 1);
    auto batch = loader.begin();
    EXPECT_EQ(Inputs(*batch), Indices({0, 1}));
    for (int i = 0; i < 10; ++i) {
        ++batch;  // also over the one that fails
    }
    EXPECT_EQ(Inputs(*batch), Indices({20, 21}));
    ++batch;
    EXPECT_EQ(Inputs(*batch), Indices({22, 23}));
}

TEST(DataLoaderWorkers, WorkersStayWithinTheirLimitAndEndWhenDropped) {
    const auto dataset = std::make_shared<Uneven>(1000);
    {
        DataLoader loader(dataset, 1, false, 0, false, 3, 2);
        auto batch = loader.begin();
        EXPECT_EQ(dataset->made, 0);
        EXPECT_EQ(Inputs(*batch), Indices({0}));
        // One taken and six ahead, however long nobody asks.
        for (int i = 0; i < 2000 && dataset->made < 7; ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        EXPECT_EQ(dataset->made, 7);
    }
    EXPECT_EQ(dataset->made, 7);
    EXPECT_EQ(dataset.use_count(), 1);
    // Dropped at any moment, in any state.
    for (int looks = 0; looks < 8; ++looks) {
        DataLoader loader(std::make_shared<Uneven>(50, 3), 1, true, static_cast<uint64_t>(looks), false, 8);
        auto batch = loader.begin();
        for (int i = 0; i < looks; ++i, ++batch) {
            Thrown<IoError>([&] { *batch; });
        }
    }
}

// Waits until two batches are being made at once, and sees whether kernels would take more threads there.
class Meeting : public Dataset {
public:
    std::pair<TensorPtr, TensorPtr> operator[](size_t) const override {
        std::unique_lock<std::mutex> lock(mutex);
        ++present;
        changed.notify_all();
        changed.wait_for(lock, std::chrono::seconds(60), [&] { return present >= 2; });
        serial = serial && InParallelRegion();
        return {Tensor::FromScalar(1), Tensor::FromScalar(1)};
    }
    size_t Size() const override { return 2; }

    mutable std::mutex mutex;
    mutable std::condition_variable changed;
    mutable int present = 0;
    mutable bool serial = true;
};

TEST(DataLoaderWorkers, WorkAtTheSameTimeEachByItself) {
    const auto dataset = std::make_shared<Meeting>();
    DataLoader loader(dataset, 1, false, 0, false, 2);
    for (const auto &batch : loader) {
        EXPECT_EQ(batch.first->NumElements(), 1);
    }
    EXPECT_EQ(dataset->present, 2);
    EXPECT_TRUE(dataset->serial);
    EXPECT_FALSE(InParallelRegion());
}

TEST(DataLoaderState, GoesOnAtAnyBatch) {
    const auto dataset = std::make_shared<Uneven>(11);
    for (const size_t workers : {0, 2, 8}) {
        const auto make = [&] { return DataLoader(dataset, 2, true, 5, false, workers); };
        DataLoader whole = make();
        std::vector<Indices> expected = Rest(whole);
        for (const Indices &batch : Rest(whole)) {
            expected.push_back(batch);
        }
        ASSERT_EQ(expected.size(), 12U);
        for (size_t saved = 0; saved <= 12; ++saved) {
            DataLoader first = make();
            std::map<std::string, TensorPtr> state = first.StateDict();
            size_t count = 0;
            while (count < saved) {
                for (const auto &batch : first) {
                    EXPECT_EQ(Inputs(batch), expected[count]);
                    if (++count == saved) {
                        state = first.StateDict();
                        break;
                    }
                }
            }
            EXPECT_EQ(state.at("epoch")->Item<uint64_t>(), saved / 6);
            EXPECT_EQ(state.at("batch")->Item<uint64_t>(), saved % 6);
            DataLoader second = make();
            second.LoadStateDict(state);
            EXPECT_EQ(second.StateDict().at("batch")->Item<uint64_t>(), saved % 6);
            EXPECT_EQ(second.begin().BatchIndex(), saved % 6);
            second.LoadStateDict(state);
            std::vector<Indices> rest = Rest(second);
            for (const Indices &batch : Rest(second)) {
                rest.push_back(batch);
            }
            for (size_t i = saved; i < 12; ++i) {
                EXPECT_EQ(rest[i - saved], expected[i]) << saved << " " << i;
            }
        }
    }
}

TEST(DataLoaderState, RefusesOtherData) {
    const auto dataset = std::make_shared<Uneven>(11);
    DataLoader loader(dataset, 2, true, 5);
    const auto good = loader.StateDict();
    const auto message = [&](DataLoader other) { return Thrown<ValueError>([&] { other.LoadStateDict(good); }); };
    EXPECT_EQ(message(DataLoader(dataset, 3, true, 5)),
              "DataLoader: the state doesn't fit:\n  batch_size is 2, this loader's 3");
    EXPECT_TRUE(Contains(message(DataLoader(dataset, 2, true, 6)), "seed is 5, this loader's 6"));
    EXPECT_TRUE(Contains(message(DataLoader(dataset, 2, false, 5)), "shuffle is 1, this loader's 0"));
    EXPECT_TRUE(Contains(message(DataLoader(dataset, 2, true, 5, true)), "drop_last is 0, this loader's 1"));
    EXPECT_TRUE(Contains(message(DataLoader(std::make_shared<Uneven>(12), 2, true, 5)), "num_samples is 11"));
    auto beyond = good;
    beyond["batch"] = Tensor::FromScalar(uint64_t{6}, DataType::kUINT64);
    EXPECT_TRUE(Contains(Thrown<ValueError>([&] { loader.LoadStateDict(beyond); }), "batch is 6 of 6"));
    beyond.erase("batch");
    EXPECT_TRUE(Contains(Thrown<ValueError>([&] { loader.LoadStateDict(beyond); }), "batch is missing"));
    EXPECT_EQ(Thrown<ValueError>([&] { DataLoader(dataset, 2, true, 5, false, 1, 0); }),
              "DataLoader: expected a prefetch of 1 to 4096, got 0");
    EXPECT_EQ(Thrown<ValueError>([&] { DataLoader(dataset, 2, true, 5, false, static_cast<size_t>(-1)); }),
              "DataLoader: expected 0 to 4096 workers, got -1");
}

}  // namespace
}  // namespace infini_train
