#include "infini_train/include/core/allocator.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"

#if !defined(__SANITIZE_ADDRESS__) && defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

namespace infini_train {
namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr bool kCaching = false;
#else
constexpr bool kCaching = true;
#endif
constexpr size_t kMiB = size_t{1} << 20;

Allocator &Cpu() {
    return GetAllocator(Device());
}

// Waste is at most a quarter of a block, or 63 bytes.
void ExpectReasonable(size_t live, size_t asked) {
    EXPECT_GE(live, asked);
    EXPECT_LE(live, std::max(asked + asked / 3, asked + 64)) << asked;
}

TEST(AllocatorTest, EverySizeIsAlignedAndWritable) {
    std::vector<size_t> sizes = {0};
    for (size_t power = 1; power <= 8 * kMiB; power *= 2) {
        sizes.insert(sizes.end(), {power - 1, power, power + 1, power + power / 2});
    }
    Cpu().ReleaseCached();
    for (const size_t bytes : sizes) {
        const size_t before = Cpu().Stats().live;
        void *const data = Cpu().Allocate(bytes);
        ASSERT_NE(data, nullptr);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % Allocator::kAlignment, 0U) << bytes;
        if (kCaching && bytes >= 2 * kMiB) {
            EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % (2 * kMiB), 0U) << bytes;
        }
        if (bytes > 0) {
            std::memset(data, 0xa5, bytes);
        }
        ExpectReasonable(Cpu().Stats().live - before, bytes);
        Cpu().Deallocate(data, bytes);
        EXPECT_EQ(Cpu().Stats().live, before);
    }
}

TEST(AllocatorTest, NullIsIgnored) {
    const MemoryStats before = Cpu().Stats();
    Cpu().Deallocate(nullptr, 0);
    Cpu().Deallocate(nullptr, 100 * kMiB);
    EXPECT_EQ(Cpu().Stats().live, before.live);
}

TEST(AllocatorTest, LiveBlocksNeverOverlap) {
    // Random sizes and order; each block is filled with a value of its own, which must be intact when it is freed.
    struct Block {
        unsigned char *data;
        size_t bytes;
        unsigned char value;
    };
    std::mt19937 random(5);
    std::vector<Block> blocks;
    const size_t before = Cpu().Stats().live;
    for (int step = 0; step < 20000; ++step) {
        if (blocks.size() < 200 && random() % 5 < 3) {
            const size_t bytes = random() % 300 == 0 ? kMiB + random() % (3 * kMiB) : random() % (1U << random() % 15);
            const auto value = static_cast<unsigned char>(random());
            auto *data = static_cast<unsigned char *>(Cpu().Allocate(bytes));
            std::memset(data, value, bytes);
            blocks.push_back({data, bytes, value});
        } else if (!blocks.empty()) {
            std::swap(blocks[random() % blocks.size()], blocks.back());
            const Block &block = blocks.back();
            ASSERT_TRUE(
                std::all_of(block.data, block.data + block.bytes, [&](unsigned char c) { return c == block.value; }));
            Cpu().Deallocate(block.data, block.bytes);
            blocks.pop_back();
        }
    }
    for (const Block &block : blocks) {
        Cpu().Deallocate(block.data, block.bytes);
    }
    EXPECT_EQ(Cpu().Stats().live, before);
}

TEST(AllocatorTest, ReusesWhatCameBack) {
    if (!kCaching) {
        GTEST_SKIP() << "AddressSanitizer gets every block from the system";
    }
    for (const size_t bytes : {size_t{100}, size_t{5000}, 200 * size_t{1024}, 3 * kMiB, 70 * kMiB}) {
        void *const first = Cpu().Allocate(bytes);
        Cpu().Deallocate(first, bytes);
        const size_t reserved = Cpu().Stats().reserved;
        void *const second = Cpu().Allocate(bytes);
        EXPECT_EQ(second, first) << bytes;
        EXPECT_EQ(Cpu().Stats().reserved, reserved);
        Cpu().Deallocate(second, bytes);
    }
}

TEST(AllocatorTest, TakesTheBestFitWithAtMostAQuarterWasted) {
    if (!kCaching) {
        GTEST_SKIP() << "AddressSanitizer gets every block from the system";
    }
    Cpu().ReleaseCached();
    const size_t sizes[] = {16 * kMiB, 24 * kMiB, 20 * kMiB};
    void *blocks[3];
    for (int i = 0; i < 3; ++i) {
        blocks[i] = Cpu().Allocate(sizes[i]);
    }
    for (int i = 0; i < 3; ++i) {
        Cpu().Deallocate(blocks[i], sizes[i]);
    }
    void *const best = Cpu().Allocate(18 * kMiB);
    EXPECT_EQ(best, blocks[2]);
    void *const next = Cpu().Allocate(18 * kMiB);
    EXPECT_EQ(next, blocks[1]);  // wastes exactly a quarter
    void *const small = Cpu().Allocate(11 * kMiB);
    EXPECT_NE(small, blocks[0]);  // would waste more
    Cpu().Deallocate(best, 18 * kMiB);
    Cpu().Deallocate(next, 18 * kMiB);
    Cpu().Deallocate(small, 11 * kMiB);
}

TEST(AllocatorTest, StatisticsAreExact) {
    Cpu().ReleaseCached();
    Cpu().ResetPeak();
    const MemoryStats start = Cpu().Stats();
    EXPECT_EQ(start.peak, start.live);
    EXPECT_GE(start.reserved, start.live);
    void *const a = Cpu().Allocate(1024);
    void *const b = Cpu().Allocate(4 * kMiB);
    const MemoryStats full = Cpu().Stats();
    EXPECT_EQ(full.live, start.live + 1024 + 4 * kMiB);
    EXPECT_EQ(full.peak, full.live);
    EXPECT_EQ(full.allocations, start.allocations + 2);
    Cpu().Deallocate(b, 4 * kMiB);
    EXPECT_EQ(Cpu().Stats().live, start.live + 1024);
    EXPECT_EQ(Cpu().Stats().peak, full.peak);
    EXPECT_EQ(Cpu().Stats().reserved, kCaching ? full.reserved : full.reserved - 4 * kMiB);
    void *const c = Cpu().Allocate(64);
    EXPECT_EQ(Cpu().Stats().peak, full.peak);
    Cpu().ResetPeak();
    EXPECT_EQ(Cpu().Stats().peak, start.live + 1024 + 64);
    Cpu().Deallocate(a, 1024);
    Cpu().Deallocate(c, 64);
    EXPECT_EQ(Cpu().Stats().live, start.live);
    EXPECT_EQ(Cpu().Stats().allocations, start.allocations + 3);
}

TEST(AllocatorTest, ReleaseCachedGivesEverythingBack) {
    std::vector<std::pair<void *, size_t>> blocks;
    for (size_t bytes = 1; bytes <= 32 * kMiB; bytes *= 2) {
        blocks.emplace_back(Cpu().Allocate(bytes), bytes);
    }
    for (const auto &[data, bytes] : blocks) {
        Cpu().Deallocate(data, bytes);
    }
    Cpu().ReleaseCached();
    const MemoryStats stats = Cpu().Stats();
    EXPECT_EQ(stats.reserved, stats.live);
}

TEST(AllocatorTest, WhatIsKeptDoesNotGrowWithoutBound) {
    // Every size is new and fits no block before it, as with batches of changing length. Other tests hold 128 MiB at
    // most.
    Cpu().ReleaseCached();
    const size_t live = Cpu().Stats().live;
    for (size_t i = 1; i <= 60; ++i) {
        const size_t bytes = i * 8 * kMiB;
        Cpu().Deallocate(Cpu().Allocate(bytes), bytes);
        EXPECT_LE(Cpu().Stats().reserved, live + 2 * std::max(bytes, 128 * kMiB) + 257 * kMiB);
    }
    Cpu().ReleaseCached();
}

TEST(AllocatorTest, BlocksMayBeFreedByAnotherThread) {
    const MemoryStats start = Cpu().Stats();
    constexpr int kThreads = 4, kBlocks = 3000;
    std::vector<std::vector<std::pair<void *, size_t>>> blocks(kThreads);
    const auto run = [](auto &&body) {
        std::vector<std::thread> threads;
        for (int t = 0; t < kThreads; ++t) {
            threads.emplace_back(body, t);
        }
        for (auto &thread : threads) {
            thread.join();
        }
    };
    for (int round = 0; round < 3; ++round) {
        run([&](int t) {
            std::mt19937 random(static_cast<unsigned>(t));
            for (int i = 0; i < kBlocks; ++i) {
                const size_t bytes = i % 1000 == 0 ? 2 * kMiB : 1 + random() % 5000;
                auto *data = static_cast<unsigned char *>(Cpu().Allocate(bytes));
                data[0] = data[bytes - 1] = static_cast<unsigned char>(t);
                blocks[static_cast<size_t>(t)].emplace_back(data, bytes);
            }
        });
        run([&](int t) {
            const int owner = (t + 1) % kThreads;
            for (const auto &[data, bytes] : blocks[static_cast<size_t>(owner)]) {
                const auto *values = static_cast<unsigned char *>(data);
                EXPECT_EQ(values[0], owner);
                EXPECT_EQ(values[bytes - 1], owner);
                Cpu().Deallocate(data, bytes);
            }
            blocks[static_cast<size_t>(owner)].clear();
        });
    }
    EXPECT_EQ(Cpu().Stats().live, start.live);
    EXPECT_EQ(Cpu().Stats().allocations, start.allocations + 3 * kThreads * kBlocks);
    // The threads have ended, so nothing hides with them.
    Cpu().ReleaseCached();
    EXPECT_EQ(Cpu().Stats().reserved, start.live);
}

// Memory may be freed by destructors that run after the allocator's own in the same thread.
struct HoldsMemory {
    void *data = nullptr;
    ~HoldsMemory() { Cpu().Deallocate(data, 100); }
};

TEST(AllocatorTest, WorksWhileAThreadEnds) {
    const size_t before = Cpu().Stats().live;
    std::thread([] {
        static thread_local HoldsMemory early;
        early.data = Cpu().Allocate(100);
        static thread_local HoldsMemory late;
        late.data = Cpu().Allocate(100);
    }).join();
    EXPECT_EQ(Cpu().Stats().live, before);
    Cpu().ReleaseCached();
}

std::string MessageFor(size_t bytes) {
    try {
        Cpu().Deallocate(Cpu().Allocate(bytes), bytes);
    } catch (const OutOfMemoryError &error) {
        return error.what();
    }
    return "there was memory";
}

TEST(AllocatorTest, SaysWhatIsMissing) {
    void *const held = Cpu().Allocate(3 * kMiB);
    const size_t live = Cpu().Stats().live;
    for (const size_t bytes : {size_t{1} << 45, size_t{1} << 47, ~size_t{0}, ~size_t{0} - 63}) {
        const std::string message = MessageFor(bytes);
        EXPECT_EQ(message.rfind("Allocate: expected " + std::to_string(bytes) + " bytes of CPU memory, got none: ", 0),
                  0U)
            << message;
        EXPECT_NE(message.find(": " + std::to_string(live) + " live, "), std::string::npos) << message;
        EXPECT_NE(message.find(" cached, "), std::string::npos) << message;
        EXPECT_NE(message.find(" free in the system"), std::string::npos) << message;
    }
    EXPECT_EQ(Cpu().Stats().live, live);
    Cpu().Deallocate(held, 3 * kMiB);
}

}  // namespace
}  // namespace infini_train
