// Sampling and beam search: against the results of other programs, and against exact probabilities.
#include "example/language_model/generate.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/io/safetensors.h"
#include "infini_train/include/tensor.h"

#include "example/language_model/model_files.h"
#include "test/support/tensors.h"

namespace infini_train::example {
namespace {

using test::Contains;
using test::Thrown;
using text::TokenId;
using Ids = std::vector<TokenId>;

#define INFINI_TRAIN_NEEDS(path)                                                 \
    if (!std::filesystem::exists(path)) {                                        \
        GTEST_SKIP() << (path) << " is not there: this comparison was NOT made"; \
    }

// ---- Small models whose logits are known ----------------------------------------------------------------------------

// Weights that are large enough for texts with some variety.
std::shared_ptr<nn::Transformer> SmallModel(bool llama = false, int64_t context = 16) {
    ManualSeed(11);
    nn::TransformerConfig config;
    if (llama) {
        config = nn::TransformerConfig::Llama(/*vocab_size=*/13, context, /*layers=*/2, /*heads=*/2, /*width=*/8);
        config.hidden = 16;
    } else {
        config.vocab_size = 13;
        config.context = context;
        config.layers = 2;
        config.heads = 2;
        config.width = 8;
        config.dropout = 0.5;
    }
    config.init_std = 0.7;
    return std::make_shared<nn::Transformer>(config, Device(), DataType::kFLOAT64);
}

// A model whose logits are a table: those of the token after id i are row i, whatever came before. The blocks add
// nothing.
std::shared_ptr<nn::Transformer> TableModel(const std::vector<std::vector<double>> &table, int64_t context = 64) {
    const auto n = static_cast<int64_t>(table.size());
    nn::TransformerConfig config;
    config.vocab_size = n;
    config.context = context;
    config.layers = 1;
    config.heads = 1;
    config.width = n;
    config.tied = false;
    auto model = std::make_shared<nn::Transformer>(config, Device(), DataType::kFLOAT64);
    for (const auto &[name, parameter] : model->NamedParameters()) {
        const auto plain = parameter->Detach();
        if (name.find("ln_") == std::string::npos) {
            plain->Fill_(0);
        }
    }
    // The final norm makes of a one-hot vector m at the token and -1 / m elsewhere, m = sqrt(n - 1); a bias of 1 / m
    // makes it one-hot again.
    const double m = std::sqrt(static_cast<double>(n - 1));
    for (int64_t i = 0; i < n; ++i) {
        model->module("wte")->parameter("weight")->Detach()->Select(0, i)->Select(0, i)->Fill_(1e4);
    }
    model->module("ln_f")->parameter("bias")->Detach()->Fill_(1 / m);
    const auto head = model->module("lm_head")->parameter("weight")->Detach();
    for (int64_t v = 0; v < n; ++v) {
        for (int64_t j = 0; j < n; ++j) {
            head->Select(0, v)->Select(0, j)->Fill_(table[static_cast<size_t>(j)][static_cast<size_t>(v)] /
                                                    (m + 1 / m));
        }
    }
    return model;
}

// What running the model on the whole text for each token gives: the reference for the cache, and for sliding.
Ids GreedyWithoutCache(nn::Transformer &model, Ids text, int64_t new_tokens, int64_t kept) {
    const int64_t context = model.config().context;
    const size_t prompt = text.size();
    size_t begin = 0;
    for (int64_t i = 0; i < new_tokens; ++i) {
        if (static_cast<int64_t>(text.size() - begin) > context) {
            begin = text.size() - static_cast<size_t>(kept);
        }
        const std::vector<int64_t> window(text.begin() + static_cast<std::ptrdiff_t>(begin), text.end());
        const auto length = static_cast<int64_t>(window.size());
        const auto logits = model({Tensor::FromVector(window, {{1, length}})})[0]->Select(1, length - 1);
        text.push_back(static_cast<TokenId>(logits->Argmax(-1)->Item<int64_t>()));
    }
    return {text.begin() + static_cast<std::ptrdiff_t>(prompt), text.end()};
}

class BothKinds : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Generate, BothKinds, ::testing::Values(false, true),
                         [](const auto &info) { return info.param ? "Llama" : "Gpt2"; });

TEST_P(BothKinds, TheCacheChangesNothing) {
    const auto model = SmallModel(GetParam());
    const Ids prompt{3, 1, 4};
    const Ids written = Generate(*model, prompt, 13, {.temperature = 0});
    EXPECT_TRUE(model->is_training());
    model->Eval();
    EXPECT_EQ(written, GreedyWithoutCache(*model, prompt, 13, 8));
    EXPECT_GT(std::set<TokenId>(written.begin(), written.end()).size(), 2u);
}

TEST_P(BothKinds, AFullContextKeepsTheLastTokens) {
    const auto model = SmallModel(GetParam());
    model->Eval();
    const Ids prompt{3, 1, 4, 1, 5};
    for (const int64_t kept : {1, 3, 8, 15}) {
        EXPECT_EQ(Generate(*model, prompt, 40, {.temperature = 0, .kept = kept}),
                  GreedyWithoutCache(*model, prompt, 40, kept))
            << kept;
    }
    EXPECT_EQ(Generate(*model, prompt, 40, {.temperature = 0}), GreedyWithoutCache(*model, prompt, 40, 8));
    // A prompt that fits is read whole, one that doesn't is cut.
    for (const size_t length : {16, 17, 40}) {
        Ids longer(length);
        std::iota(longer.begin(), longer.end(), 0);
        std::for_each(longer.begin(), longer.end(), [](TokenId &id) { id = id * id % 13; });
        EXPECT_EQ(Generate(*model, longer, 20, {.temperature = 0, .kept = 5}),
                  GreedyWithoutCache(*model, longer, 20, 5))
            << length;
        const auto beams = BeamSearch(*model, longer, 20, {.beams = 1, .kept = 5});
        ASSERT_EQ(beams.size(), 1u);
        EXPECT_EQ(beams[0].ids, GreedyWithoutCache(*model, longer, 20, 5)) << length;
    }
    const auto tiny = SmallModel(GetParam(), /*context=*/1);
    tiny->Eval();
    EXPECT_EQ(Generate(*tiny, prompt, 5, {.temperature = 0}), GreedyWithoutCache(*tiny, prompt, 5, 1));
}

// ---- Other programs' results ----------------------------------------------------------------------------------------

TEST(GenerateReference, Stories260K) {
    const std::string folder = "../shared/data/stories260k";
    INFINI_TRAIN_NEEDS(folder);
    const auto tokens = io::LoadSafetensors(folder + "/stories260K_reference_f64.safetensors").at("tokens");
    const auto expected = tokens->ToVector<TokenId>();
    ASSERT_EQ(expected.size(), 201u);
    for (const DataType dtype : {DataType::kFLOAT32, DataType::kFLOAT64}) {
        const LoadedModel loaded = LoadModel(folder + "/stories260K.bin", dtype);
        Ids streamed;
        const Ids written = Generate(*loaded.model, Ids{expected[0]}, 200, {.temperature = 0}, nullptr,
                                     [&](TokenId id) { return streamed.push_back(id), true; });
        EXPECT_EQ(written, Ids(expected.begin() + 1, expected.end()));
        EXPECT_EQ(streamed, written);
    }
}

TEST(BeamSearchReference, TinyGpt2) {
    const std::string folder = "../shared/data/tiny_gpt2";
    INFINI_TRAIN_NEEDS(folder);
    const auto expected = nlohmann::json::parse(std::ifstream(folder + "/beam_expected.json"));
    for (const DataType dtype : {DataType::kFLOAT32, DataType::kFLOAT64}) {
        const LoadedModel loaded = LoadModel(folder, dtype);
        for (const bool early_stopping : {false, true}) {
            for (size_t i = 0; i < 3; ++i) {
                Ids text = expected["input_ids"][i].get<Ids>();
                const auto beams =
                    BeamSearch(*loaded.model, text, 8, {.beams = 4, .early_stopping = early_stopping, .stop = {98}});
                ASSERT_EQ(beams.size(), 4u);
                text.insert(text.end(), beams[0].ids.begin(), beams[0].ids.end());
                EXPECT_EQ(text, expected["beam4_expected"][i].get<Ids>()) << i;
            }
        }
    }
}

// ---- The choice of a token ------------------------------------------------------------------------------------------

// Pearson's statistic of `counts` for `probabilities`; an outcome of probability 0 must not occur.
double ChiSquared(const std::vector<int64_t> &counts, const std::vector<double> &probabilities) {
    const double n = static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
    double statistic = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
        const double expected = n * probabilities[i];
        if (expected == 0) {
            EXPECT_EQ(counts[i], 0) << "token " << i;
        } else {
            statistic += std::pow(static_cast<double>(counts[i]) - expected, 2) / expected;
        }
    }
    return statistic;
}

// After each token the logits are the logarithms of these: probabilities are fractions of 20, the last one never comes.
const std::vector<double> kWeights{1, 2, 3, 10, 4, 1e-300};

// Of the token after the prompt 0, 3.
void ExpectWeights(const SamplingOptions &options, std::vector<double> weights) {
    std::vector<double> logits;
    for (const double weight : kWeights) {
        logits.push_back(std::log(weight));
    }
    const auto model = TableModel(std::vector<std::vector<double>>(kWeights.size(), logits));
    Generator generator(5), same(5);
    std::vector<int64_t> counts(kWeights.size());
    for (int64_t i = 0; i < 4000; ++i) {
        ++counts[static_cast<size_t>(Generate(*model, Ids{0, 3}, 1, options, &generator).at(0))];
        same.NextDouble();
    }
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    std::for_each(weights.begin(), weights.end(), [&](double &weight) { weight /= total; });
    // 18.5 is exceeded by one in a thousand with 4 degrees of freedom; the draws are the same on each machine.
    EXPECT_LT(ChiSquared(counts, weights), 18.5);
    EXPECT_EQ(generator.GetState(), same.GetState());
}

TEST(Sampling, Plain) {
    ExpectWeights({}, {1, 2, 3, 10, 4, 0});
}
TEST(Sampling, Temperature) {
    ExpectWeights({.temperature = 0.5}, {1, 4, 9, 100, 16, 0});
}
TEST(Sampling, TopK) {
    ExpectWeights({.top_k = 3}, {0, 0, 3, 10, 4, 0});
    ExpectWeights({.top_k = 100}, {1, 2, 3, 10, 4, 0});
}
TEST(Sampling, TopP) {
    ExpectWeights({.top_p = 0.71}, {0, 0, 3, 10, 4, 0});  // 10 + 4 is below 0.71 of 20
    ExpectWeights({.top_p = 0.69}, {0, 0, 0, 10, 4, 0});
    ExpectWeights({.top_p = 1e-9}, {0, 0, 0, 1, 0, 0});
}
TEST(Sampling, RepetitionPenalty) {
    // The prompt's tokens: ln 1 = 0 stays, ln 10 becomes its half.
    ExpectWeights({.repetition_penalty = 2}, {1, 2, 3, std::sqrt(10), 4, 0});
}
TEST(Sampling, InOrder) {
    // Penalty: 1, 2, 3, sqrt(10), 4; temperature: 1, 4, 9, 10, 16; top-k: 9, 10, 16; top-p: 26 of 35 is 0.74.
    ExpectWeights({.temperature = 0.5, .top_k = 3, .top_p = 0.73, .repetition_penalty = 2}, {0, 0, 0, 10, 16, 0});
    ExpectWeights({.temperature = 0.5, .top_k = 3, .top_p = 0.75, .repetition_penalty = 2}, {0, 0, 9, 10, 16, 0});
}

// After each token the next number of the table has logit 2, the token itself 3.
TEST(Generate, ARepetitionPenaltyCountsTheWholeText) {
    std::vector<std::vector<double>> table(5, std::vector<double>(5, 0.0));
    for (size_t i = 0; i < 5; ++i) {
        table[i][i] = 3;
        table[i][(i + 1) % 5] = 2;
    }
    const auto model = TableModel(table, /*context=*/2);
    EXPECT_EQ(Generate(*model, Ids{0}, 4, {.temperature = 0}), (Ids{0, 0, 0, 0}));
    // 3 / 1.4 is above 2, 3 / 1.6 below it; once all are there the logits are 3 / 1.6 and 2 / 1.6.
    EXPECT_EQ(Generate(*model, Ids{0}, 4, {.temperature = 0, .repetition_penalty = 1.4}), (Ids{0, 0, 0, 0}));
    EXPECT_EQ(Generate(*model, Ids{0}, 6, {.temperature = 0, .repetition_penalty = 1.6}), (Ids{1, 2, 3, 4, 4, 4}));
}

// ---- Ends -----------------------------------------------------------------------------------------------------------

TEST(Generate, EndsWhereItIsTold) {
    std::vector<std::vector<double>> table(5, std::vector<double>(5, 0.0));
    for (size_t i = 0; i < 5; ++i) {
        table[i][(i + 1) % 5] = 9;
    }
    const auto model = TableModel(table);
    const SamplingOptions greedy{.temperature = 0, .stop = {4, 3}};
    EXPECT_EQ(Generate(*model, Ids{0}, 10, greedy), (Ids{1, 2}));
    EXPECT_EQ(Generate(*model, Ids{3}, 10, greedy), Ids{});  // 3 in the prompt doesn't end it, 4 does
    EXPECT_EQ(Generate(*model, Ids{0}, 0, greedy), Ids{});
    EXPECT_EQ(Generate(*model, Ids{0}, 1, greedy), Ids{1});
    Ids streamed;
    const Ids written = Generate(*model, Ids{4}, 10, {.temperature = 0}, nullptr, [&](TokenId id) {
        streamed.push_back(id);
        return streamed.size() < 3;
    });
    EXPECT_EQ(streamed, (Ids{0, 1, 2}));
    EXPECT_EQ(written, streamed);
}

TEST(Generate, IsDeterminedByTheGenerator) {
    const auto model = SmallModel();
    Generator one(21), same(21), other(22);
    const Ids prompt{1, 2};
    const Ids first = Generate(*model, prompt, 60, {}, &one);
    EXPECT_EQ(first, Generate(*model, prompt, 60, {}, &same));
    EXPECT_NE(first, Generate(*model, prompt, 60, {}, &other));
    EXPECT_EQ(one.GetState(), same.GetState());
    ManualSeed(21);
    EXPECT_EQ(first, Generate(*model, prompt, 60));
}

TEST(Generate, LeavesTheModelAsItWas) {
    const auto model = SmallModel();
    model->Eval();
    model->module("h.1")->Train();
    Generate(*model, Ids{1}, 3, {.temperature = 0});
    BeamSearch(*model, Ids{1}, 3);
    EXPECT_THROW(Generate(*model, Ids{1}, 3, {}, nullptr, [](TokenId) -> bool { throw ValueError("mine"); }),
                 ValueError);
    EXPECT_FALSE(model->is_training() || model->module("h.0")->is_training() || model->module("drop")->is_training());
    EXPECT_TRUE(model->module("h.1")->is_training() && model->module("h.1.mlp")->is_training());
    for (const TensorPtr &parameter : model->Parameters()) {
        EXPECT_EQ(parameter->grad(), nullptr);
    }
}

// ---- Beam search ----------------------------------------------------------------------------------------------------

// From 0: 1 with 0.6 and 2 with 0.4; from 1: 0.28, 0.26, 0.22 and 0.24; from 2: 2 with 0.9, 3 with 0.1.
std::shared_ptr<nn::Transformer> Fork() {
    const double never = std::log(1e-30);
    const auto ln = [](double p) { return std::log(p); };
    return TableModel({{never, ln(0.6), ln(0.4), never},
                       {ln(0.28), ln(0.26), ln(0.22), ln(0.24)},
                       {never, never, ln(0.9), ln(0.1)},
                       {0, 0, 0, 0}});
}

TEST(BeamSearch, FindsWhatGreedyMisses) {
    const auto model = Fork();
    EXPECT_EQ(BeamSearch(*model, Ids{0}, 2, {.beams = 1}).at(0).ids, (Ids{1, 0}));  // 0.6 * 0.28 = 0.168
    const auto beams = BeamSearch(*model, Ids{0}, 2, {.beams = 2});
    ASSERT_EQ(beams.size(), 2u);
    EXPECT_EQ(beams[0].ids, (Ids{2, 2}));  // 0.4 * 0.9 = 0.36
    EXPECT_NEAR(beams[0].score, std::log(0.36) / 2, 1e-7);
    EXPECT_EQ(beams[1].ids, (Ids{1, 0}));
    EXPECT_NEAR(beams[1].score, std::log(0.168) / 2, 1e-7);
}

TEST(BeamSearch, AnEndCountsItsTokenAndItsLength) {
    const auto model = Fork();
    // 3 ends. Two beams: {1}: 0.6, {2}: 0.4; then {2, 2}: 0.36, {1, 0}: 0.168; then {2, 2, 2}: 0.324, {1, 0, 1}:
    // 0.1008, {1, 0, 2}: 0.0672, {2, 2} and the end: 0.036, which isn't among the best two and doesn't count.
    auto beams = BeamSearch(*model, Ids{0}, 3, {.beams = 2, .length_penalty = 0, .stop = {3}});
    ASSERT_EQ(beams.size(), 2u);
    EXPECT_EQ(beams[0].ids, (Ids{2, 2, 2}));
    EXPECT_NEAR(beams[0].score, std::log(0.324), 1e-7);
    EXPECT_EQ(beams[1].ids, (Ids{1, 0, 1}));
    // Four beams: {1} and the end, 0.6 * 0.24, is among the best of the second step.
    beams = BeamSearch(*model, Ids{0}, 2, {.beams = 4, .length_penalty = 2, .stop = {3}});
    ASSERT_EQ(beams.size(), 4u);
    EXPECT_EQ(beams[0].ids, (Ids{2, 2}));
    EXPECT_EQ(beams[1].ids, (Ids{1, 0}));
    EXPECT_EQ(beams[2].ids, (Ids{1, 1}));
    EXPECT_EQ(beams[3].ids, Ids{1});
    EXPECT_NEAR(beams[3].score, std::log(0.144) / 4, 1e-7);
}

// From 0: 1 with 0.5, the end (2) with 0.5; from 1: 1 with 0.9, the end with 0.1.
TEST(BeamSearch, StopsEarlyOrWhenNothingBetterCanCome) {
    const double never = std::log(1e-30);
    const auto model =
        TableModel({{never, std::log(0.5), std::log(0.5)}, {never, std::log(0.9), std::log(0.1)}, {0, 0, 0}});
    BeamOptions options{.beams = 1, .length_penalty = 1, .stop = {2}};
    // Ties go to the lower id: {1}, 0.5, is followed, the end has rank 2 and doesn't count.
    auto beams = BeamSearch(*model, Ids{0}, 5, options);
    EXPECT_EQ(beams.at(0).ids, (Ids{1, 1, 1, 1, 1}));
    // Two beams: the end at once (score ln 0.5), then {1} and the end (ln(0.05) / 2): two have ended.
    options.beams = 2;
    options.early_stopping = true;
    beams = BeamSearch(*model, Ids{0}, 5, options);
    ASSERT_EQ(beams.size(), 2u);
    EXPECT_EQ(beams[0].ids, Ids{});
    EXPECT_NEAR(beams[0].score, std::log(0.5), 1e-7);
    EXPECT_EQ(beams[1].ids, Ids{1});
    EXPECT_NEAR(beams[1].score, std::log(0.05) / 2, 1e-7);
    // Otherwise {1, 1, ...} goes on, which at its length always beats the worst that has ended.
    options.early_stopping = false;
    beams = BeamSearch(*model, Ids{0}, 5, options);
    ASSERT_EQ(beams.size(), 2u);
    EXPECT_EQ(beams[0].ids, (Ids{1, 1, 1, 1, 1}));
    EXPECT_NEAR(beams[0].score, (std::log(0.5) + 4 * std::log(0.9)) / 5, 1e-7);
    EXPECT_EQ(beams[1].ids, (Ids{1, 1, 1, 1}));
    EXPECT_NEAR(beams[1].score, (std::log(0.5) + 3 * std::log(0.9) + std::log(0.1)) / 5, 1e-7);
}

TEST(BeamSearch, FindsTheBestOfAllIfItFollowsAll) {
    const auto model = SmallModel();
    model->Eval();
    const Ids prompt{2, 7};
    // All 13^2 continuations, by the model itself.
    double best = -std::numeric_limits<double>::infinity();
    Ids best_ids;
    for (TokenId first = 0; first < 13; ++first) {
        for (TokenId second = 0; second < 13; ++second) {
            const auto ids = Tensor::FromVector<int64_t>({2, 7, first, second}, {{1, 4}});
            const auto logits = (*model)({ids})[0]->View({4, 13});
            const auto all = logits->Sub(logits->Exp()->Sum(1, true)->Log())->Detach();
            const double sum = all->Select(0, 1)->Select(0, first)->Item<double>() +
                               all->Select(0, 2)->Select(0, second)->Item<double>();
            if (sum > best) {
                best = sum;
                best_ids = {first, second};
            }
        }
    }
    const auto beams = BeamSearch(*model, prompt, 2, {.beams = 13});
    ASSERT_EQ(beams.size(), 13u);
    EXPECT_EQ(beams[0].ids, best_ids);
    EXPECT_NEAR(beams[0].score, best / 2, 1e-9);
    EXPECT_TRUE(
        std::is_sorted(beams.begin(), beams.end(), [](const Beam &a, const Beam &b) { return a.score > b.score; }));
}

TEST(BeamSearch, ARepetitionPenaltyIsOnLogProbabilities) {
    // From each token: itself with 0.6, the next one with 0.4: ln 0.6 * 2 = -1.02 is below ln 0.4 = -0.92.
    const double never = std::log(1e-30);
    const auto model = TableModel({{std::log(0.6), std::log(0.4), never},
                                   {never, std::log(0.6), std::log(0.4)},
                                   {std::log(0.4), never, std::log(0.6)}});
    EXPECT_EQ(BeamSearch(*model, Ids{0}, 2, {.beams = 1}).at(0).ids, (Ids{0, 0}));
    const auto beams = BeamSearch(*model, Ids{0}, 2, {.beams = 1, .repetition_penalty = 2});
    EXPECT_EQ(beams.at(0).ids, (Ids{1, 2}));
    EXPECT_NEAR(beams.at(0).score, std::log(0.4), 1e-7);
}

TEST(BeamSearch, SmallCases) {
    const auto model = SmallModel();
    const auto none = BeamSearch(*model, Ids{1}, 0);
    ASSERT_EQ(none.size(), 1u);
    EXPECT_EQ(none[0].ids, Ids{});
    EXPECT_EQ(none[0].score, 0);
    // More beams than one step has tokens.
    EXPECT_EQ(BeamSearch(*model, Ids{1}, 1, {.beams = 20}).size(), 13u);
    EXPECT_EQ(BeamSearch(*model, Ids{1}, 2, {.beams = 20}).size(), 20u);
}

// ---- Errors ---------------------------------------------------------------------------------------------------------

TEST(Generate, RefusesWhatMakesNoSense) {
    const auto model = SmallModel();
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const auto refused = [&](const SamplingOptions &options, const Ids &prompt = {1}, int64_t new_tokens = 3) {
        return Thrown<ValueError>([&] { Generate(*model, prompt, new_tokens, options); });
    };
    EXPECT_EQ(refused({.temperature = -1}), "Generate: expected temperature >= 0, got -1");
    EXPECT_TRUE(Contains(refused({.temperature = nan}), "temperature"));
    EXPECT_EQ(refused({.top_k = -2}), "Generate: expected top_k >= 0, got -2");
    EXPECT_EQ(refused({.top_p = 0}), "Generate: expected top_p above 0 and at most 1, got 0");
    EXPECT_TRUE(Contains(refused({.top_p = 1.5}), "top_p"));
    EXPECT_TRUE(Contains(refused({.top_p = nan}), "top_p"));
    EXPECT_EQ(refused({.repetition_penalty = 0}), "Generate: expected repetition_penalty > 0, got 0");
    EXPECT_EQ(refused({.stop = {13}}), "Generate: expected stop ids below the vocabulary's 13, got 13");
    EXPECT_EQ(refused({.kept = 16}), "Generate: expected kept from 0 to 15, below the context, got 16");
    EXPECT_EQ(refused({}, {}), "Generate: expected a prompt of at least one token, got none");
    EXPECT_EQ(refused({}, {1, -4}), "Generate: expected ids of the prompt below the vocabulary's 13, got -4");
    EXPECT_EQ(refused({}, {1}, -1), "Generate: expected max_new_tokens >= 0, got -1");
}

TEST(BeamSearch, RefusesWhatMakesNoSense) {
    const auto model = SmallModel();
    const auto refused = [&](const BeamOptions &options, const Ids &prompt = {1}) {
        return Thrown<ValueError>([&] { BeamSearch(*model, prompt, 3, options); });
    };
    EXPECT_EQ(refused({.beams = 0}), "BeamSearch: expected at least 1 beam, got 0");
    EXPECT_TRUE(Contains(refused({.length_penalty = std::numeric_limits<double>::infinity()}), "length_penalty"));
    EXPECT_EQ(refused({.repetition_penalty = -1}), "BeamSearch: expected repetition_penalty > 0, got -1");
    EXPECT_EQ(refused({}, {13}), "BeamSearch: expected ids of the prompt below the vocabulary's 13, got 13");
}

TEST(Generate, NamesLogitsThatAreNotNumbers) {
    const auto model = SmallModel();
    model->module("ln_f")->parameter("bias")->Detach()->Fill_(std::numeric_limits<double>::quiet_NaN());
    EXPECT_EQ(Thrown<ValueError>([&] { Generate(*model, Ids{1}, 3); }),
              "Generate: expected logits that are numbers, got NaN for token 0");
    EXPECT_EQ(Thrown<ValueError>([&] { BeamSearch(*model, Ids{1}, 3); }),
              "BeamSearch: expected logits that are numbers, got NaN for token 0");
}

}  // namespace
}  // namespace infini_train::example
