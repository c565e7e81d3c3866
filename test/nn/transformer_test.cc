// The Transformer as a whole: its parameters, its cache, checkpoints, hooks, errors. The values of its parts are
// compared in transformer_parts_test.cc, those of whole models in test/example/model_files_test.cc.
#include "infini_train/include/nn/modules/transformer/transformer.h"

#include <cmath>
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

}  // namespace
}  // namespace infini_train::nn
