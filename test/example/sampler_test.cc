#include "example/language_model/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"

#include "test/support/tensors.h"

namespace infini_train::example {
namespace {

using test::Thrown;
using text::TokenId;
using Ids = std::vector<TokenId>;

// With 50,000 tokens: what top-k and top-p keep, by sorting.
TEST(ChooseToken, KeepsWhatSortingWouldKeep) {
    Generator generator(9);
    std::vector<double> logits(50000);
    for (const double spread : {0.1, 12.0}) {
        for (double &logit : logits) {
            logit = spread * (generator.NextDouble() + generator.NextDouble() + generator.NextDouble());
        }
        std::vector<size_t> order(logits.size());
        std::iota(order.begin(), order.end(), size_t{0});
        std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
        double total = 0;
        for (const double logit : logits) {
            total += std::exp(logit);
        }
        for (const int64_t k : {1, 40, 5000}) {
            const double last = logits[order[static_cast<size_t>(k - 1)]];
            for (int i = 0; i < 20; ++i) {
                EXPECT_GE(logits.at(static_cast<size_t>(ChooseToken(logits, {.top_k = k}, generator))), last) << k;
            }
        }
        for (const double p : {1e-6, 0.3, 0.9, 0.999}) {
            std::vector<bool> kept(logits.size());
            double sum = 0;
            for (size_t i = 0; sum < p * total; ++i) {
                kept[order[i]] = true;
                sum += std::exp(logits[order[i]]);
            }
            // The draw of u is the token at which the kept ones' cumulative sum, by id, passes u of it.
            for (int i = 0; i < 20; ++i) {
                Generator copy;
                copy.SetState(generator.GetState());
                double left = copy.NextDouble() * sum;
                size_t expected = 0;
                for (;; ++expected) {
                    left -= kept[expected] ? std::exp(logits[expected]) : 0;
                    if (left < 0) {
                        break;
                    }
                }
                EXPECT_EQ(ChooseToken(logits, {.top_p = p}, generator), static_cast<TokenId>(expected)) << p;
            }
        }
    }
}

TEST(ChooseToken, TakesTheFirstOfEquals) {
    Generator generator(1);
    const std::vector<double> logits{0, 2, 2, -1, 2};
    EXPECT_EQ(ChooseToken(logits, {.temperature = 0}, generator), 1);
    EXPECT_EQ(generator.GetState(), Generator(1).GetState());  // greedy takes no number
    for (int i = 0; i < 50; ++i) {
        EXPECT_EQ(ChooseToken(logits, {.top_k = 1}, generator), 1);
        const TokenId of_two = ChooseToken(logits, {.top_k = 2}, generator);
        EXPECT_TRUE(of_two == 1 || of_two == 2) << of_two;
        // Temperatures that no double can divide by.
        EXPECT_EQ(logits.at(static_cast<size_t>(ChooseToken(logits, {.temperature = 1e-320}, generator))), 2);
    }
}

TEST(PenalizeRepetition, ByHand) {
    std::vector<double> scores{3, -1, 0, 4, -2, 5};
    PenalizeRepetition(Ids{1, 3, 1, 2, 0, 3, 3}, 2, scores);
    EXPECT_EQ(scores, (std::vector<double>{1.5, -2, 0, 2, -2, 5}));
    PenalizeRepetition(Ids{4, 5}, 0.5, scores);
    EXPECT_EQ(scores, (std::vector<double>{1.5, -2, 0, 2, -1, 10}));
}

TEST(CheckScores, NamesWhatIsNotANumber) {
    const double infinity = std::numeric_limits<double>::infinity();
    const auto refused = [](const std::vector<double> &scores) {
        return Thrown<ValueError>([&] { CheckScores("Here", scores); });
    };
    EXPECT_EQ(refused({0, infinity}), "Here: expected logits that are numbers, got infinity for token 1");
    EXPECT_EQ(refused({0, 1, std::nan("")}), "Here: expected logits that are numbers, got NaN for token 2");
    EXPECT_EQ(refused({-infinity}), "Here: expected logits that are numbers, got minus infinity for all");
    EXPECT_EQ(refused({-infinity, 0}), "");
}

}  // namespace
}  // namespace infini_train::example
