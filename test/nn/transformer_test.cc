// The Transformer as a whole: its parameters, its cache, checkpoints, hooks, errors. The values of its parts are
// compared in transformer_parts_test.cc, those of whole models in test/example/model_files_test.cc.
#include "infini_train/include/nn/modules/transformer/transformer.h"

#include <cmath>
#include <functional>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/core/generator.h"
#include "infini_train/include/nn/functional.h"
#include "infini_train/include/tensor.h"

#include "test/support/temp_dir.h"
#include "test/support/tensors.h"

namespace infini_train::nn {
namespace {

using test::Contains;
using test::MessageOf;

TransformerConfig SmallGpt2() {
    TransformerConfig config;
    config.vocab_size = 29;
    config.context = 16;
    config.layers = 3;
    config.heads = 4;
    config.width = 24;
    return config;
}

TransformerConfig SmallLlama() {
    auto config = TransformerConfig::Llama(/*vocab_size=*/29, /*context=*/16, /*layers=*/3, /*heads=*/4, /*width=*/24);
    config.kv_heads = 2;
    config.hidden = 40;
    return config;
}

std::shared_ptr<Transformer> NewModel(const TransformerConfig &config, DataType dtype = DataType::kFLOAT64) {
    ManualSeed(7);
    return std::make_shared<Transformer>(config, Device(), dtype);
}

TensorPtr Ids(int64_t batch, int64_t length) {
    Generator generator(3);
    return Tensor::RandInt(0, 29, {batch, length}, DataType::kINT64, Device(), &generator);
}

double MaxDifference(const TensorPtr &a, const TensorPtr &b) {
    EXPECT_EQ(a->Dims(), b->Dims());
    return a->Detach()->Sub(b->Detach())->Abs()->Max()->Item<double>();
}

class Both : public ::testing::TestWithParam<bool> {
protected:
    TransformerConfig Config() const { return GetParam() ? SmallLlama() : SmallGpt2(); }
};
INSTANTIATE_TEST_SUITE_P(Transformer, Both, ::testing::Values(false, true),
                         [](const auto &info) { return info.param ? "Llama" : "Gpt2"; });

TEST_P(Both, CachedLogitsAreTheUncachedOnes) {
    const auto model = NewModel(Config());
    const auto ids = Ids(2, 9);
    const auto all = (*model)({ids})[0];
    KeyValueCache cache(model->config(), 2, 9, Device(), DataType::kFLOAT64);
    // A prompt at once, two more at once, then one by one.
    for (const int64_t end : {4, 6, 7, 8, 9}) {
        const int64_t begin = cache.length();
        const auto logits = model->Decode(ids->Narrow(1, begin, end - begin), &cache);
        EXPECT_LT(MaxDifference(logits, all->Select(1, end - 1)), 1e-12) << "up to " << end;
        EXPECT_FALSE(logits->requires_grad());
        EXPECT_EQ(cache.length(), end);
    }
}

TEST_P(Both, CountsItsParameters) {
    for (const bool tied : {false, true}) {
        for (const bool bias : {false, true}) {
            auto config = Config();
            config.tied = tied;
            config.bias = bias;
            config.head_size = 10;
            const auto model = NewModel(config, DataType::kFLOAT32);
            int64_t count = 0;
            for (const auto &parameter : model->Parameters()) {
                count += parameter->NumElements();
            }
            EXPECT_EQ(config.NumParameters(), count) << tied << bias;
            EXPECT_EQ((*model)({Ids(1, 3)})[0]->Dims(), (std::vector<int64_t>{1, 3, 29}));
        }
    }
}

// Logits and all gradients of one batch.
struct Pass {
    TensorPtr logits;
    std::map<std::string, TensorPtr> grads;
};

Pass RunPass(const std::shared_ptr<Transformer> &model, const TensorPtr &ids) {
    model->ZeroGrad();
    Pass pass;
    pass.logits = (*model)({ids})[0];
    pass.logits->Square()->Mean()->Backward();
    for (const auto &[name, parameter] : model->NamedParameters()) {
        pass.grads[name] = parameter->grad();
    }
    return pass;
}

TEST_P(Both, CheckpointsChangeNoBit) {
    auto config = Config();
    config.dropout = 0.2;
    const auto model = NewModel(config, DataType::kFLOAT32);
    ManualSeed(11);
    const Pass plain = RunPass(model, Ids(2, 7));
    model->CheckpointActivations(true);
    EXPECT_TRUE(model->checkpoints_activations());
    ManualSeed(11);
    const Pass again = RunPass(model, Ids(2, 7));
    EXPECT_EQ(plain.logits->ToVector<float>(), again.logits->ToVector<float>());
    for (const auto &[name, grad] : plain.grads) {
        EXPECT_EQ(grad->ToVector<float>(), again.grads.at(name)->ToVector<float>()) << name;
    }
}

TEST_P(Both, DropoutIsForTrainingAlone) {
    auto config = Config();
    config.dropout = 0.5;
    const auto model = NewModel(config);
    const auto ids = Ids(1, 5);
    EXPECT_NE(MaxDifference((*model)({ids})[0], (*model)({ids})[0]), 0);
    model->Eval();
    EXPECT_EQ(MaxDifference((*model)({ids})[0], (*model)({ids})[0]), 0);
    config.dropout = 0;
    EXPECT_EQ(MaxDifference((*model)({ids})[0], (*NewModel(config))({ids})[0]), 0);
}

// Each position sees itself and what is before it.
TEST_P(Both, TheFutureIsHidden) {
    const auto model = NewModel(Config());
    const auto ids = Ids(1, 8);
    const auto changed = ids->Clone();
    changed->Select(1, 5)->Copy_(ids->Select(1, 5)->Add(1)->Clamp(0, 28));
    changed->Select(1, 7)->Fill_(0);
    const auto a = (*model)({ids})[0], b = (*model)({changed})[0];
    EXPECT_EQ(MaxDifference(a->Narrow(1, 0, 5), b->Narrow(1, 0, 5)), 0);
    EXPECT_GT(MaxDifference(a->Narrow(1, 5, 3), b->Narrow(1, 5, 3)), 1e-6);
}

TEST_P(Both, EveryModuleRunsWithItsHooks) {
    const auto model = NewModel(Config());
    std::map<std::string, int> forward, backward;
    std::set<std::string> expected;
    for (const auto &[name, module] : model->NamedModules()) {
        if (module->type() == "ModuleList") {
            continue;
        }
        expected.insert(name);
        module->RegisterForwardPostHook(
            [&forward, name = name](Module *, const auto &, const auto &) { ++forward[name]; });
        module->RegisterBackwardPostHook(
            [&backward, name = name](Module *, const auto &, const auto &) { ++backward[name]; });
    }
    const auto check = [&](const std::map<std::string, int> &counts, int times, const std::set<std::string> &without) {
        for (const auto &name : expected) {
            const auto found = counts.find(name);
            EXPECT_EQ(found == counts.end() ? 0 : found->second, without.count(name) != 0 ? 0 : times) << name;
        }
    };
    const auto ids = Ids(1, 4);
    (*model)({ids})[0]->Sum()->Backward();
    check(forward, 1, {});
    check(backward, 1, {});
    KeyValueCache cache(model->config(), 1, 4, Device(), DataType::kFLOAT64);
    model->Decode(ids, &cache);
    forward.erase("");  // Decode is no call of the whole
    check(forward, 2, {""});
}

TEST_P(Both, ACloneIsAnotherModelOfTheSameKind) {
    const auto model = NewModel(Config());
    const auto copy = std::dynamic_pointer_cast<Transformer>(model->Clone());
    ASSERT_NE(copy, nullptr);
    EXPECT_EQ(copy->config(), model->config());
    const auto ids = Ids(2, 6);
    const auto before = (*model)({ids})[0];
    EXPECT_EQ(MaxDifference((*copy)({ids})[0], before), 0);
    const bool tied = copy->module("lm_head")->parameter("weight") == copy->module("wte")->parameter("weight");
    EXPECT_EQ(tied, model->config().tied);
    const autograd::NoGradGuard no_grad;
    copy->module("wte")->parameter("weight")->Zero_();
    EXPECT_EQ(MaxDifference((*model)({ids})[0], before), 0);
}

TEST(Transformer, FirstValuesAreThoseOfGpt2) {
    auto config = SmallGpt2();
    config.vocab_size = 500;
    config.width = 64;
    config.layers = 8;
    const auto model = NewModel(config);
    for (const auto &[name, parameter] : model->NamedParameters()) {
        const auto values = parameter->Detach();
        const double mean = values->Mean()->Item<double>(), square = values->Square()->Mean()->Item<double>();
        if (Contains(name, "ln_")) {
            EXPECT_EQ(mean, Contains(name, "weight") ? 1 : 0) << name;
            EXPECT_EQ(square, Contains(name, "weight") ? 1 : 0) << name;
        } else if (Contains(name, "bias")) {
            EXPECT_EQ(square, 0) << name;
        } else {
            const double std = Contains(name, "c_proj") ? 0.02 / std::sqrt(2.0 * 8) : 0.02;
            const double error = 5 / std::sqrt(static_cast<double>(values->NumElements()));  // five standard errors
            EXPECT_NEAR(std::sqrt(square) / std, 1, error) << name;
            EXPECT_NEAR(mean / std, 0, error) << name;
        }
    }
    EXPECT_EQ(model->module("lm_head")->parameter("weight"), model->module("wte")->parameter("weight"));
}

TEST(Transformer, NamesAreThoseOfTransformers) {
    std::vector<std::string> names;
    auto config = SmallGpt2();
    config.layers = 1;
    for (const auto &[name, parameter] : NewModel(config)->NamedParameters()) {
        names.push_back(name);
    }
    EXPECT_EQ(names, (std::vector<std::string>{
                         "wte.weight", "wpe.weight", "h.0.ln_1.weight", "h.0.ln_1.bias", "h.0.attn.c_attn.weight",
                         "h.0.attn.c_attn.bias", "h.0.attn.c_proj.weight", "h.0.attn.c_proj.bias", "h.0.ln_2.weight",
                         "h.0.ln_2.bias", "h.0.mlp.c_fc.weight", "h.0.mlp.c_fc.bias", "h.0.mlp.c_proj.weight",
                         "h.0.mlp.c_proj.bias", "ln_f.weight", "ln_f.bias"}));
}

TEST(Transformer, DecayIsForMatrices) {
    const auto model = NewModel(SmallGpt2());
    EXPECT_EQ(model->DecayParameters().size(), 2 + 4 * 3U);  // two tables, four matrices a block
    EXPECT_EQ(model->DecayParameters().size() + model->NoDecayParameters().size(), model->Parameters().size());
    for (const auto &parameter : model->NoDecayParameters()) {
        EXPECT_EQ(parameter->NumDims(), 1);
    }
}

TEST_P(Both, BeamsReorderTheCache) {
    const auto model = NewModel(Config());
    const auto ids = Ids(2, 6);
    KeyValueCache cache(model->config(), 2, 8, Device(), DataType::kFLOAT64);
    model->Decode(ids, &cache);
    cache.Reorder({1, 0, 1});
    EXPECT_EQ(cache.batch(), 3);
    EXPECT_EQ(cache.length(), 6);
    EXPECT_EQ(cache.capacity(), 8);
    const auto next = Tensor::FromVector<int64_t>({3, 4, 5}, {{3, 1}});
    const auto logits = model->Decode(next, &cache);
    for (int64_t row = 0; row < 3; ++row) {
        const auto whole = function::Concat({ids->Narrow(0, row == 1 ? 0 : 1, 1), next->Narrow(0, row, 1)}, 1);
        EXPECT_LT(MaxDifference(logits->Select(0, row), (*model)({whole})[0]->Select(0, 0)->Select(0, 6)), 1e-12)
            << row;
    }
    cache.Truncate(2);
    cache.Reorder({2});
    const auto rest = ids->Narrow(0, 1, 1)->Narrow(1, 2, 4);
    const auto expected = (*model)({ids->Narrow(0, 1, 1)})[0]->Select(1, 5);
    EXPECT_LT(MaxDifference(model->Decode(rest, &cache), expected), 1e-12);
}

TEST(Transformer, CacheErrors) {
    const auto model = NewModel(SmallGpt2());
    KeyValueCache cache(model->config(), 1, 4, Device(), DataType::kFLOAT64);
    EXPECT_EQ(cache.SizeInBytes(), 2U * 3 * 4 * 24 * 8);
    const auto ids = Ids(1, 3);
    const auto logits = model->Decode(ids, &cache);
    EXPECT_TRUE(Contains(MessageOf<IndexError>([&] { model->Decode(Ids(1, 2), &cache); }),
                         "KeyValueCache: 2 more positions don't fit: 3 of 4 are filled"));
    EXPECT_EQ(cache.length(), 3);
    cache.Truncate(0);
    EXPECT_EQ(MaxDifference(model->Decode(ids, &cache), logits), 0);  // the failure left nothing behind
    EXPECT_THROW(cache.Truncate(4), IndexError);
    EXPECT_THROW(cache.Truncate(-1), IndexError);
    EXPECT_THROW(cache.Reorder({}), ValueError);
    EXPECT_THROW(cache.Reorder({0, 1}), IndexError);
    EXPECT_THROW(cache.Keys(3), IndexError);
    EXPECT_THROW(cache.Advance(2), IndexError);
    EXPECT_THROW(model->Decode(ids, nullptr), ValueError);
    EXPECT_THROW(model->Decode(nullptr, &cache), ValueError);
    EXPECT_TRUE(Contains(MessageOf<ShapeError>([&] { model->Decode(Ids(2, 1), &cache); }),
                         "expected a cache of 3 layers and 2 rows, got 3 and 1"));
    EXPECT_THROW(KeyValueCache(model->config(), 0, 4), ValueError);
    EXPECT_THROW(KeyValueCache(model->config(), 1, 0), ValueError);
    KeyValueCache long_cache(model->config(), 1, 40, Device(), DataType::kFLOAT64);
    model->Decode(Ids(1, 16), &long_cache);
    EXPECT_TRUE(Contains(MessageOf<IndexError>([&] { model->Decode(Ids(1, 1), &long_cache); }),
                         "Transformer: expected at most 16 positions, got 17"));
}

TEST(Transformer, ForwardErrors) {
    const auto model = NewModel(SmallGpt2());
    EXPECT_TRUE(Contains(MessageOf<ShapeError>([&] { (*model)({Tensor::Arange(0, 3)}); }),
                         "Transformer: expected ids (batch, positions) of at least one position, got (3,)"));
    EXPECT_THROW((*model)({Tensor::Empty({1, 0}, DataType::kINT64)}), ShapeError);
    EXPECT_THROW((*model)({Ids(1, 17)}), IndexError);
    EXPECT_THROW((*model)({Tensor::Full({1, 2}, 29, DataType::kINT64)}), IndexError);
    EXPECT_THROW((*model)({Tensor::Full({1, 2}, -1, DataType::kINT64)}), IndexError);
    EXPECT_THROW((*model)({Tensor::Ones({1, 2})}), DtypeError);
    EXPECT_THROW((*model)({}), ValueError);
    EXPECT_THROW((*model)({nullptr}), ValueError);
    EXPECT_NO_THROW((*NewModel(SmallLlama()))({Ids(1, 40)}));  // rotary positions have no end
}

TEST(Transformer, ConfigErrors) {
    const auto refused = [](const std::function<void(TransformerConfig *)> &change, const std::string &says) {
        auto config = SmallLlama();
        change(&config);
        const std::string message = MessageOf<ValueError>([&] { Transformer model(config); });
        EXPECT_TRUE(Contains(message, "TransformerConfig: expected " + says)) << message;
    };
    refused([](auto *c) { c->vocab_size = 0; }, "vocab_size of 1 to 2147483648, got 0");
    refused([](auto *c) { c->layers = -1; }, "layers of");
    refused([](auto *c) { c->context = int64_t{1} << 40; }, "context of");
    refused([](auto *c) { c->heads = 5; }, "a width that divides into 5 heads, got 24");
    refused([](auto *c) { c->kv_heads = 3; }, "heads that are a multiple of the 3 kv_heads, got 4");
    refused([](auto *c) { c->head_size = 7; }, "an even head size for rotary positions, got 7");
    refused([](auto *c) { c->dropout = 1.5; }, "a dropout in [0, 1], got 1.5");
    refused([](auto *c) { c->dropout = std::nan(""); }, "a dropout in [0, 1], got nan");
    refused([](auto *c) { c->eps = 0; }, "eps above 0, got 0");
    refused([](auto *c) { c->rope_theta = -1; }, "rope_theta above 0");
    refused([](auto *c) { c->init_std = -1; }, "an init_std of at least 0");
    refused([](auto *c) { c->rope_scaling = {.type = RopeScaling::Type::kLinear, .factor = 0}; },
            "rope_scaling.factor above 0");
    refused(
        [](auto *c) {
            c->rope_scaling = {RopeScaling::Type::kLlama3, 8, 4, 4, 64};
        },
        "a rope_scaling.low_frequency_factor below the high_frequency_factor 4, got 4");
    refused(
        [](auto *c) {
            c->layers = c->width = c->hidden = int64_t{1} << 31;
            c->heads = c->kv_heads = 1;
        },
        "at most 2^60 parameters");
}

TEST(Transformer, PrintsItself) {
    auto config = SmallLlama();
    config.layers = 1;
    EXPECT_EQ(NewModel(config)->ToString(), R"(Transformer(vocab_size=29, context=16, layers=1, heads=4, width=24
  (wte): Embedding(29, 24)
  (drop): Dropout(p=0)
  (h): ModuleList(
    (0): TransformerBlock(
      (ln_1): RMSNorm(24, eps=1e-05, elementwise_affine=true)
      (attn): CausalSelfAttention(heads=4, kv_heads=2, head_size=6, dropout=0
        (c_attn): Linear(in_features=24, out_features=48, bias=false)
        (c_proj): Linear(in_features=24, out_features=24, bias=false)
        (rotary): RotaryEmbedding(head_size=6, theta=10000, interleaved=false)
        (resid_dropout): Dropout(p=0)
      )
      (ln_2): RMSNorm(24, eps=1e-05, elementwise_affine=true)
      (mlp): MLP(
        (c_gate): Linear(in_features=24, out_features=40, bias=false)
        (c_fc): Linear(in_features=24, out_features=40, bias=false)
        (act): SwiGLU()
        (c_proj): Linear(in_features=40, out_features=24, bias=false)
        (dropout): Dropout(p=0)
      )
    )
  )
  (ln_f): RMSNorm(24, eps=1e-05, elementwise_affine=true)
  (lm_head): Linear(in_features=24, out_features=29, bias=false)
))");
}

}  // namespace
}  // namespace infini_train::nn
