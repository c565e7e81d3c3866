#include "infini_train/include/core/parallel.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"

namespace infini_train {
namespace {

class ParallelTest : public testing::TestWithParam<int> {
protected:
    void SetUp() override { SetNumThreads(GetParam()); }
    void TearDown() override { SetNumThreads(before_); }

private:
    const int before_ = GetNumThreads();
};
INSTANTIATE_TEST_SUITE_P(Threads, ParallelTest, testing::Values(1, 2, 3, 4));

using Chunks = std::vector<std::pair<int64_t, int64_t>>;

// The chunks of a run, in ascending order.
Chunks ChunksOf(int64_t begin, int64_t end, int64_t grain) {
    std::mutex mutex;
    Chunks chunks;
    ParallelFor(begin, end, grain, [&](int64_t chunk_begin, int64_t chunk_end) {
        const std::lock_guard<std::mutex> lock(mutex);
        chunks.emplace_back(chunk_begin, chunk_end);
    });
    std::sort(chunks.begin(), chunks.end());
    return chunks;
}

TEST_P(ParallelTest, CoversTheRangeOnceInMultiplesOfTheGrain) {
    for (const int64_t begin : {int64_t{0}, int64_t{5}, int64_t{-7}, int64_t{1} << 40}) {
        for (const int64_t length : {1, 2, 3, 7, 8, 63, 64, 65, 1000}) {
            for (const int64_t grain : {1, 2, 3, 8, 64, 2000}) {
                const Chunks chunks = ChunksOf(begin, begin + length, grain);
                ASSERT_FALSE(chunks.empty());
                ASSERT_LE(chunks.size(), static_cast<size_t>(GetParam()));
                int64_t next = begin;
                for (const auto &[chunk_begin, chunk_end] : chunks) {
                    ASSERT_EQ(chunk_begin, next);
                    ASSERT_GT(chunk_end, chunk_begin);
                    if (chunk_end != begin + length) {
                        ASSERT_EQ((chunk_end - chunk_begin) % grain, 0);
                    }
                    next = chunk_end;
                }
                ASSERT_EQ(next, begin + length);
            }
        }
    }
}

TEST_P(ParallelTest, AnEmptyRangeRunsNothing) {
    EXPECT_TRUE(ChunksOf(3, 3, 1).empty());
    EXPECT_TRUE(ChunksOf(3, 1, 4).empty());
}

TEST_P(ParallelTest, UsesTheThreadsThereAre) {
    EXPECT_EQ(GetNumThreads(), GetParam());
    std::mutex mutex;
    std::set<std::thread::id> ids;
    ParallelFor(0, 1000, 1, [&](int64_t, int64_t) {
        EXPECT_EQ(InParallelRegion(), GetParam() > 1);
        const std::lock_guard<std::mutex> lock(mutex);
        ids.insert(std::this_thread::get_id());
    });
    EXPECT_EQ(ids.size(), static_cast<size_t>(GetParam()));
    EXPECT_FALSE(InParallelRegion());
}

TEST_P(ParallelTest, ASmallRangeStaysInTheCaller) {
    const auto caller = std::this_thread::get_id();
    ParallelFor(0, 64, 64, [&](int64_t begin, int64_t end) {
        EXPECT_EQ(std::this_thread::get_id(), caller);
        EXPECT_FALSE(InParallelRegion());
        EXPECT_EQ(end - begin, 64);
    });
}

TEST_P(ParallelTest, NestedRunsAreSerial) {
    std::vector<std::atomic<int>> visits(64);
    ParallelFor(0, 8, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const auto outer = std::this_thread::get_id();
            ParallelFor(0, 8, 1, [&, i](int64_t inner_begin, int64_t inner_end) {
                if (GetParam() > 1) {
                    EXPECT_EQ(std::this_thread::get_id(), outer);
                }
                for (int64_t j = inner_begin; j < inner_end; ++j) {
                    ++visits[static_cast<size_t>(i * 8 + j)];
                }
            });
            EXPECT_EQ(InParallelRegion(), GetParam() > 1);
        }
    });
    for (const auto &count : visits) {
        EXPECT_EQ(count, 1);
    }
}

TEST_P(ParallelTest, TheFirstExceptionReachesTheCaller) {
    for (int repeat = 0; repeat < 20; ++repeat) {
        std::atomic<int64_t> finished{0};
        try {
            ParallelFor(0, 100, 1, [&](int64_t begin, int64_t end) {
                if (begin <= 99 && 99 < end) {
                    throw ValueError("chunk " + std::to_string(end));
                }
                finished += end - begin;
            });
            FAIL();
        } catch (const ValueError &error) {
            EXPECT_STREQ(error.what(), "chunk 100");
        }
        EXPECT_FALSE(InParallelRegion());
        EXPECT_LE(finished, 99);
    }
    // All of them throwing is fine, too, and the next run is as good as new.
    EXPECT_THROW(ParallelFor(0, 100, 1, [](int64_t, int64_t) { throw std::runtime_error("all"); }), std::runtime_error);
    EXPECT_EQ(ChunksOf(0, 100, 1).back().second, 100);
}

TEST_P(ParallelTest, CallersInSeveralThreadsDontDisturbEachOther) {
    std::atomic<int64_t> total{0};
    std::vector<std::thread> callers;
    for (int i = 0; i < 3; ++i) {
        callers.emplace_back([&] {
            for (int repeat = 0; repeat < 50; ++repeat) {
                ParallelFor(0, 1000, 10, [&](int64_t begin, int64_t end) { total += end - begin; });
            }
        });
    }
    for (auto &caller : callers) {
        caller.join();
    }
    EXPECT_EQ(total, 3 * 50 * 1000);
}

TEST(ParallelSettingsTest, RefusesLessThanOneThread) {
    const int before = GetNumThreads();
    EXPECT_GE(before, 1);
    EXPECT_THROW(SetNumThreads(0), ValueError);
    EXPECT_THROW(SetNumThreads(-3), ValueError);
    EXPECT_EQ(GetNumThreads(), before);
}

TEST(ParallelSettingsTest, TakesConstBodies) {
    std::atomic<int64_t> total{0};
    const auto body = [&](int64_t begin, int64_t end) { total += end - begin; };
    ParallelFor(0, 10, 1, body);
    EXPECT_EQ(total, 10);
}

}  // namespace
}  // namespace infini_train
