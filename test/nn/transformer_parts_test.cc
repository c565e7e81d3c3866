// The modules that a Transformer is made of, beside PyTorch's in float64: values and all gradients.
#include <cmath>
#include <map>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/core/generator.h"
#include "infini_train/include/io/safetensors.h"
#include "infini_train/include/nn/functional.h"
#include "infini_train/include/nn/modules/activations.h"
#include "infini_train/include/nn/modules/normalization.h"
#include "infini_train/include/nn/modules/transformer/causal_self_attention.h"
#include "infini_train/include/nn/modules/transformer/mlp.h"
#include "infini_train/include/nn/modules/transformer/multi_head_attention.h"
#include "infini_train/include/nn/modules/transformer/rotary_embedding.h"
#include "infini_train/include/nn/modules/transformer/transformer.h"
#include "infini_train/include/tensor.h"

#include "test/support/temp_dir.h"
#include "test/support/tensors.h"

namespace infini_train::nn {
namespace {

using test::Contains;
using test::MessageOf;
using Tensors = std::map<std::string, TensorPtr>;

// What a case's names begin with, without that.
Tensors Of(const std::string &prefix) {
    static const Tensors all = io::LoadSafetensors("test/fixtures/transformer.safetensors");
    Tensors found;
    for (const auto &[name, tensor] : all) {
        if (name.compare(0, prefix.size(), prefix) == 0) {
            found[name.substr(prefix.size())] = tensor;
        }
    }
    return found;
}

double Difference(const TensorPtr &a, const TensorPtr &b) {
    EXPECT_EQ(a->Dims(), b->Dims());
    const auto exact = b->To(DataType::kFLOAT64);
    return a->Detach()->To(DataType::kFLOAT64)->Sub(exact)->Abs()->Max()->Item<double>();
}

// Copies of the inputs, in place of a leaf's gradients; null where the case has none.
TensorList InputsOf(const Tensors &tensors, DataType dtype) {
    TensorList inputs;
    for (int i = 0; i < 4; ++i) {
        const auto found = tensors.find("in" + std::to_string(i));
        if (found == tensors.end()) {
            inputs.push_back(nullptr);
        } else if (IsFloatingPoint(found->second->Dtype())) {
            inputs.push_back(found->second->To(dtype)->Clone()->RequiresGrad());
        } else {
            inputs.push_back(found->second);
        }
    }
    while (inputs.back() == nullptr) {
        inputs.pop_back();
    }
    return inputs;
}

// Runs a module on a case's inputs (and `extra` ones), and compares all there is to compare.
void Compare(const std::string &name, const std::shared_ptr<Module> &module, DataType dtype,
             const TensorList &extra = {}) {
    SCOPED_TRACE(name + " in " + ToString(dtype));
    const double tolerance = dtype == DataType::kFLOAT64 ? 1e-12 : 2e-5;
    const Tensors tensors = Of(name + "/");
    ASSERT_FALSE(tensors.empty());
    module->To(dtype);
    module->LoadStateDict(Of(name + "/p/"));
    const TensorList inputs = InputsOf(tensors, dtype);
    TensorList all = inputs;
    all.insert(all.end(), extra.begin(), extra.end());
    const auto output = (*module)(all)[0];
    EXPECT_LT(Difference(output, tensors.at("out0")), tolerance);
    output->Backward(tensors.at("go0")->To(dtype));
    for (size_t i = 0; i < inputs.size(); ++i) {
        const auto expected = tensors.find("gi" + std::to_string(i));
        if (expected != tensors.end()) {
            ASSERT_NE(inputs[i]->grad(), nullptr) << "input " << i;
            EXPECT_LT(Difference(inputs[i]->grad(), expected->second), tolerance) << "input " << i;
        }
    }
    const Tensors expected = Of(name + "/gp/");
    EXPECT_EQ(expected.size(), module->NamedParameters().size());
    for (const auto &[path, parameter] : module->NamedParameters()) {
        EXPECT_LT(Difference(parameter->grad(), expected.at(path)), tolerance) << path;
    }
}

class Parts : public ::testing::TestWithParam<DataType> {};
INSTANTIATE_TEST_SUITE_P(Transformer, Parts, ::testing::Values(DataType::kFLOAT64, DataType::kFLOAT32),
                         [](const auto &info) { return ToString(info.param); });

TransformerConfig PartConfig(bool llama, int64_t width, int64_t heads, int64_t kv_heads, int64_t hidden) {
    auto config = llama ? TransformerConfig::Llama(10, 16, 1, heads, width) : TransformerConfig();
    config.layers = 1;
    config.width = width;
    config.heads = heads;
    config.kv_heads = kv_heads;
    config.hidden = hidden;
    return config;
}

TEST_P(Parts, RmsNorm) {
    Compare("rms_norm", std::make_shared<RMSNorm>(7), GetParam());
    Compare("rms_norm_plain", std::make_shared<RMSNorm>(7, 1e-3, /*elementwise_affine=*/false), GetParam());
}

TEST_P(Parts, RotaryEmbedding) {
    Compare("rotary/halves", std::make_shared<RotaryEmbedding>(6), GetParam());
    Compare("rotary/pairs", std::make_shared<RotaryEmbedding>(6, RotaryOptions{500.0, {}, true}), GetParam());
    Compare("rotary/later", std::make_shared<RotaryEmbedding>(4), GetParam(),
            {Tensor::FromScalar(70, DataType::kINT64)});
    const RopeScaling linear{.type = RopeScaling::Type::kLinear, .factor = 4.0};
    Compare("rotary/linear", std::make_shared<RotaryEmbedding>(6, RotaryOptions{10000.0, linear, false}), GetParam());
    const RopeScaling llama3{RopeScaling::Type::kLlama3, 8.0, 1.0, 4.0, 64.0};
    Compare("rotary/llama3", std::make_shared<RotaryEmbedding>(12, RotaryOptions{300.0, llama3, false}), GetParam());
}

TEST_P(Parts, Mlp) {
    Compare("mlp/gelu", std::make_shared<MLP>(PartConfig(false, 5, 1, 1, 9)), GetParam());
    auto gated = PartConfig(false, 5, 1, 1, 9);
    gated.activation = MLPType::kSwiGLU;
    gated.bias = false;
    Compare("mlp/swiglu", std::make_shared<MLP>(gated), GetParam());
}

TEST_P(Parts, CausalSelfAttention) {
    Compare("self_attention/gpt2", std::make_shared<CausalSelfAttention>(PartConfig(false, 12, 3, 0, 0)), GetParam());
    Compare("self_attention/llama", std::make_shared<CausalSelfAttention>(PartConfig(true, 12, 6, 2, 0)), GetParam());
}

TEST_P(Parts, Block) {
    Compare("block/gpt2", std::make_shared<TransformerBlock>(PartConfig(false, 12, 2, 0, 20)), GetParam());
    Compare("block/llama", std::make_shared<TransformerBlock>(PartConfig(true, 12, 2, 1, 20)), GetParam());
}

TEST_P(Parts, MultiHeadAttention) {
    Compare("attention/self", std::make_shared<MultiHeadAttention>(12, 3), GetParam());
    MultiHeadAttentionOptions options;
    options.key_width = 5;
    options.value_width = 7;
    Compare("attention/cross", std::make_shared<MultiHeadAttention>(12, 2, options), GetParam());
    options = {};
    options.bias = false;
    Compare("attention/mask", std::make_shared<MultiHeadAttention>(12, 2, options), GetParam());
    const auto bias = std::make_shared<MultiHeadAttention>(12, 2);
    Compare("attention/bias", bias, GetParam());
}

// Of the same weights, MultiHeadAttention and CausalSelfAttention are the same function.
TEST(TransformerParts, TheTwoAttentionsAgree) {
    ManualSeed(5);
    const auto packed =
        std::make_shared<CausalSelfAttention>(PartConfig(false, 12, 4, 2, 0), Device(), DataType::kFLOAT64);
    MultiHeadAttentionOptions options;
    options.kv_heads = 2;
    options.is_causal = true;
    const auto general = std::make_shared<MultiHeadAttention>(12, 4, options, Device(), DataType::kFLOAT64);
    const StateDict state = packed->StateDict();
    StateDict split;
    for (const char *kind : {"weight", "bias"}) {
        const auto parts = function::Split(state.at(std::string("c_attn.") + kind), {12, 6, 6});
        split[std::string("q_proj.") + kind] = parts[0];
        split[std::string("k_proj.") + kind] = parts[1];
        split[std::string("v_proj.") + kind] = parts[2];
        split[std::string("out_proj.") + kind] = state.at(std::string("c_proj.") + kind);
    }
    general->LoadStateDict(split);
    const auto x = Tensor::Randn({2, 7, 12}, DataType::kFLOAT64);
    EXPECT_LT(Difference((*general)({x})[0], (*packed)({x})[0]), 1e-14);
}

TEST(TransformerParts, SwiGluIsSiluOfTheGateTimesTheOther) {
    const auto gate = test::Of({0, 1, -2}), up = test::Of({5, 2, 3});
    const auto values = std::make_shared<SwiGLU>()->Forward({gate, up})[0]->ToVector<float>();
    EXPECT_FLOAT_EQ(values[0], 0);
    EXPECT_FLOAT_EQ(values[1], 2 / (1 + std::exp(-1.0F)));
    EXPECT_FLOAT_EQ(values[2], -6 / (1 + std::exp(2.0F)));
}

TEST(TransformerParts, SixteenBitsAreWithinTheirRounding) {
    for (const DataType dtype : {DataType::kBFLOAT16, DataType::kFLOAT16}) {
        for (const char *name : {"block/gpt2", "block/llama"}) {
            const bool llama = std::string(name) == "block/llama";
            const auto block = std::make_shared<TransformerBlock>(PartConfig(llama, 12, 2, llama ? 1 : 0, 20));
            block->LoadStateDict(Of(std::string(name) + "/p/"));
            block->To(dtype);
            const Tensors tensors = Of(std::string(name) + "/");
            const auto output = (*block)({tensors.at("in0")->To(dtype)})[0];
            EXPECT_EQ(output->Dtype(), dtype);
            const double scale = tensors.at("out0")->Abs()->Max()->Item<double>();
            EXPECT_LT(Difference(output, tensors.at("out0")), scale * (dtype == DataType::kBFLOAT16 ? 0.03 : 0.004));
        }
    }
}

TEST(TransformerParts, RotaryTablesAreSharedAndStayExactInSixteenBits) {
    auto rotary = std::make_shared<RotaryEmbedding>(6);
    EXPECT_TRUE(rotary->Buffers().empty());
    rotary->To(DataType::kBFLOAT16);
    const auto x = Tensor::Ones({3000, 6});
    const auto exact = (*rotary)({x->To(DataType::kFLOAT64)})[0];
    // A table in bfloat16, or angles in float32, would be off by far more at position 3,000.
    EXPECT_LT(Difference((*rotary)({x})[0], exact), 2e-7);
    const auto copy = rotary->Clone();
    EXPECT_EQ(Difference((*copy)({x})[0], (*rotary)({x})[0]), 0);
}

TEST(TransformerParts, Errors) {
    EXPECT_EQ(MessageOf<ValueError>([] { RMSNorm(0); }), "RMSNorm: expected a size of at least 1, got 0");
    EXPECT_TRUE(Contains(MessageOf<ShapeError>([] {
                             RMSNorm(3).Forward({Tensor::Ones({2, 4})});
                         }),
                         "RMSNorm: expected (..., 3), got (2, 4)"));
    EXPECT_TRUE(Contains(MessageOf<ValueError>([] { RotaryEmbedding(5); }), "an even head size of at least 2, got 5"));
    const auto rotary = std::make_shared<RotaryEmbedding>(4);
    EXPECT_TRUE(Contains(MessageOf<ShapeError>([&] {
                             (*rotary)({Tensor::Ones({2, 6})});
                         }),
                         "expected (..., positions, 4), got (2, 6)"));
    EXPECT_THROW((*rotary)({}), ValueError);
    EXPECT_THROW((*rotary)({nullptr}), ValueError);
    EXPECT_THROW((*rotary)({Tensor::Ones({2, 4}), Tensor::FromScalar(-1, DataType::kINT64)}), IndexError);
    EXPECT_THROW(MultiHeadAttention(10, 3), ValueError);
    EXPECT_THROW(MultiHeadAttention(12, 4, {.kv_heads = 3}), ValueError);
    EXPECT_THROW(MultiHeadAttention(12, 4, {.dropout = 1.5}), ValueError);
    EXPECT_THROW(MultiHeadAttention(0, 4), ValueError);
    const auto attention = std::make_shared<MultiHeadAttention>(12, 4);
    EXPECT_THROW((*attention)({}), ValueError);
    EXPECT_THROW((*attention)({Tensor::Ones({3, 12})}), ShapeError);
    const auto causal = std::make_shared<CausalSelfAttention>(PartConfig(false, 12, 4, 0, 0));
    EXPECT_TRUE(Contains(MessageOf<ShapeError>([&] {
                             (*causal)({Tensor::Ones({2, 5, 11})});
                         }),
                         "expected (batch, positions, 12), got (2, 5, 11)"));
    const auto keys = Tensor::Ones({2, 4, 3, 3});
    EXPECT_TRUE(Contains(MessageOf<ShapeError>([&] {
                             (*causal)({Tensor::Ones({2, 5, 12}), keys, keys});
                         }),
                         "expected keys of (2, 4, at least 5, 3), both the same, got (2, 4, 3, 3)"));
}

}  // namespace
}  // namespace infini_train::nn
