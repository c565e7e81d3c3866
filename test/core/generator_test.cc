#include "infini_train/include/core/generator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/core/philox.h"

namespace infini_train {
namespace {

using Block = std::array<uint32_t, 4>;

// The known answers that the authors publish with their implementation (Random123, kat_vectors).
TEST(PhiloxTest, GivesTheKnownAnswers) {
    static_assert(Philox4x32({0, 0, 0, 0}, {0, 0}) == Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    constexpr uint32_t kOnes = 0xffffffff;
    EXPECT_EQ(Philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
              (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
    EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
    EXPECT_EQ(PhiloxBlock(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88),
              (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, UniformNumbersStayBelowOne) {
    EXPECT_EQ(UniformFloat(0), 0.0F);
    EXPECT_EQ(UniformFloat(0xff), 0.0F);
    EXPECT_EQ(UniformFloat(0x80000000U), 0.5F);
    EXPECT_EQ(UniformFloat(0xffffffffU), 1.0F - 0x1p-24F);
    EXPECT_EQ(UniformDouble(0, 0), 0.0);
    EXPECT_EQ(UniformDouble(0, 0x80000000U), 0.5);
    EXPECT_EQ(UniformDouble(0x800, 0), 0x1p-53);
    EXPECT_EQ(UniformDouble(0xffffffffU, 0xffffffffU), 1.0 - 0x1p-53);
}

TEST(PhiloxTest, NormalNumbersAreFiniteAndNormal) {
    for (const uint32_t radius : {0U, 1U, 0x7fffffffU, 0xffffffffU}) {
        for (const uint32_t angle : {0U, 0x40000000U, 0x80000000U, 0xffffffffU}) {
            for (const float x : NormalFloats(radius, angle)) {
                EXPECT_LT(std::fabs(x), 6.8F);
            }
            for (const double x : NormalDoubles({radius, radius, angle, angle})) {
                EXPECT_LT(std::fabs(x), 8.6);
            }
        }
    }
    // The first four moments of a standard normal are 0, 1, 0 and 3; their errors have deviations of sqrt(1, 2, 15, 96)
    // / sqrt(count), and five of those are allowed.
    constexpr int kBlocks = 100000;
    std::array<double, 4> floats{}, doubles{};
    const auto add = [](std::array<double, 4> &sums, double x) {
        for (size_t k = 0; k < 4; ++k) {
            sums[k] += std::pow(x, static_cast<double>(k + 1));
        }
    };
    for (uint64_t b = 0; b < kBlocks; ++b) {
        const Block block = PhiloxBlock(42, 0, b);
        for (const float x : NormalFloats(block[0], block[1])) {
            add(floats, x);
        }
        for (const double x : NormalDoubles(block)) {
            add(doubles, x);
        }
    }
    const double expected[] = {0, 1, 0, 3};
    const double variance[] = {1, 2, 15, 96};
    for (size_t k = 0; k < 4; ++k) {
        const double tolerance = 5 * std::sqrt(variance[k] / (2 * kBlocks));
        EXPECT_NEAR(floats[k] / (2 * kBlocks), expected[k], tolerance) << k;
        EXPECT_NEAR(doubles[k] / (2 * kBlocks), expected[k], tolerance) << k;
    }
}

TEST(GeneratorTest, FollowsItsState) {
    Generator generator(0x123456789abcdef0, 7);
    EXPECT_EQ(generator.GetState(), (Generator::State{0x123456789abcdef0, 7, 0}));
    EXPECT_EQ(generator.Reserve(10), (Generator::State{0x123456789abcdef0, 7, 0}));
    EXPECT_EQ(generator.GetState().offset, 10U);
    const Block block = PhiloxBlock(0x123456789abcdef0, 7, 10);
    EXPECT_EQ(generator.NextDouble(), UniformDouble(block[0], block[1]));
    EXPECT_EQ(generator.GetState().offset, 11U);
    generator.SetSeed(5);
    EXPECT_EQ(generator.GetState(), (Generator::State{5, 0, 0}));
}

TEST(GeneratorTest, RepeatsFromASavedState) {
    Generator generator(3);
    generator.Reserve(5);
    const Generator::State saved = generator.GetState();
    std::vector<uint64_t> first, second;
    for (int i = 0; i < 20; ++i) {
        first.push_back(generator.NextBelow(1000));
    }
    Generator other(99, 4);
    other.SetState(saved);
    for (int i = 0; i < 20; ++i) {
        second.push_back(other.NextBelow(1000));
    }
    EXPECT_EQ(first, second);
    EXPECT_EQ(generator.GetState(), other.GetState());
}

TEST(GeneratorTest, SeedsAndStreamsDiffer) {
    Generator a(1), b(2), c(1, 1);
    const double x = a.NextDouble();
    EXPECT_NE(x, b.NextDouble());
    EXPECT_NE(x, c.NextDouble());
}

TEST(GeneratorTest, ThreadsGetBlocksOfTheirOwn) {
    Generator generator(1);
    constexpr int kThreads = 4, kDraws = 1000;
    std::vector<std::vector<uint64_t>> offsets(kThreads);
    std::vector<std::thread> threads;
    for (auto &mine : offsets) {
        threads.emplace_back([&generator, &mine] {
            for (int i = 0; i < kDraws; ++i) {
                mine.push_back(generator.Reserve(3).offset);
            }
        });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    std::vector<uint64_t> all;
    for (const auto &mine : offsets) {
        all.insert(all.end(), mine.begin(), mine.end());
    }
    std::sort(all.begin(), all.end());
    for (size_t i = 0; i < all.size(); ++i) {
        ASSERT_EQ(all[i], 3 * i);
    }
}

TEST(GeneratorTest, NextBelowIsInRangeAndEven) {
    Generator generator(11);
    EXPECT_THROW(generator.NextBelow(0), ValueError);
    EXPECT_EQ(generator.NextBelow(1), 0U);
    constexpr int kDraws = 70000;
    std::array<int, 7> counts{};
    for (int i = 0; i < kDraws; ++i) {
        ++counts.at(generator.NextBelow(7));
    }
    double chi_squared = 0;
    for (const int count : counts) {
        chi_squared += (count - 1e4) * (count - 1e4) / 1e4;
    }
    EXPECT_LT(chi_squared, 22.5);  // six degrees of freedom: exceeded once in a thousand seeds
}

TEST(GeneratorTest, NextBelowHasNoBiasForHugeBounds) {
    // Reduced from 64 bits without rejection, one third of this range would come up as often as the other two together.
    constexpr uint64_t kThird = uint64_t{1} << 62;
    Generator generator(12);
    std::array<int, 3> counts{};
    for (int i = 0; i < 30000; ++i) {
        ++counts.at(generator.NextBelow(3 * kThird) / kThird);
    }
    for (const int count : counts) {
        EXPECT_NEAR(count, 10000, 5 * std::sqrt(30000 * 2.0 / 9));
    }
}

TEST(GeneratorTest, NextDoubleIsUniform) {
    Generator generator(13);
    constexpr int kDraws = 100000;
    double sum = 0, squares = 0;
    for (int i = 0; i < kDraws; ++i) {
        const double x = generator.NextDouble();
        ASSERT_GE(x, 0);
        ASSERT_LT(x, 1);
        sum += x;
        squares += x * x;
    }
    EXPECT_NEAR(sum / kDraws, 1.0 / 2, 5 * std::sqrt(1.0 / 12 / kDraws));
    EXPECT_NEAR(squares / kDraws, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / kDraws));
}

TEST(GeneratorTest, ManualSeedRestartsTheDefault) {
    ManualSeed(17);
    const double first = DefaultGenerator().NextDouble();
    DefaultGenerator().Reserve(100);
    ManualSeed(17);
    EXPECT_EQ(DefaultGenerator().NextDouble(), first);
    EXPECT_EQ(Generator(17).NextDouble(), first);
}

}  // namespace
}  // namespace infini_train
