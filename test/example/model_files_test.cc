// Models of other programs: values beside what those programs compute, round trips bit for bit, and layouts by hand.
#include "example/language_model/model_files.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/core/generator.h"
#include "infini_train/include/io/safetensors.h"
#include "infini_train/include/tensor.h"

#include "test/support/temp_dir.h"
#include "test/support/tensors.h"

namespace infini_train::example {
namespace {

using test::Contains;
using test::Contents;
using test::TempDir;

constexpr char kFixtures[] = "test/fixtures/hugging_face";

void ExpectSameBits(const TensorPtr &a, const TensorPtr &b, const std::string &name) {
    ASSERT_EQ(a->Dims(), b->Dims()) << name;
    ASSERT_EQ(a->Dtype(), b->Dtype()) << name;
    const auto x = a->Detach()->Contiguous(), y = b->Detach()->Contiguous();
    EXPECT_EQ(std::memcmp(x->DataPtr(), y->DataPtr(), x->SizeInBytes()), 0) << name;
}

// With what its zeros stand for.
nn::TransformerConfig Resolved(nn::TransformerConfig config) {
    config.hidden = config.Hidden();
    config.kv_heads = config.KvHeads();
    config.head_size = config.HeadSize();
    return config;
}

void ExpectSameModel(const nn::Transformer &a, const nn::Transformer &b) {
    EXPECT_EQ(Resolved(a.config()), Resolved(b.config()));
    const auto x = a.NamedParameters(), y = b.NamedParameters();
    ASSERT_EQ(x.size(), y.size());
    for (size_t i = 0; i < x.size(); ++i) {
        EXPECT_EQ(x[i].first, y[i].first);
        ExpectSameBits(x[i].second, y[i].second, x[i].first);
    }
}

nn::TransformerConfig SmallGpt2() {
    nn::TransformerConfig config;
    config.vocab_size = 11;
    config.context = 5;
    config.layers = 2;
    config.heads = 2;
    config.width = 6;
    return config;
}

nn::TransformerConfig SmallLlama(bool tied) {
    auto config = nn::TransformerConfig::Llama(11, 5, 2, 4, 16);
    config.kv_heads = 2;
    config.hidden = 7;
    config.tied = tied;
    return config;
}

// ---- Hugging Face ---------------------------------------------------------------------------------------------------

TEST(HuggingFace, LogitsAreThoseOfTransformers) {
    const auto expected = io::LoadSafetensors(std::string(kFixtures) + "/logits.safetensors");
    for (const auto &[name, tolerance] :
         {std::pair{"gpt2", 1e-12}, {"llama", 3e-5}}) {  // transformers: norms and angles in float32
        const LoadedModel loaded = LoadModel(std::string(kFixtures) + "/" + name, DataType::kFLOAT64);
        const auto logits = (*loaded.model)({expected.at("ids")})[0]->Detach();
        EXPECT_LT(logits->Sub(expected.at(name))->Abs()->Max()->Item<double>(), tolerance) << name;
    }
}

TEST(HuggingFace, WhatWasReadIsWrittenBitForBit) {
    for (const std::string name : {"gpt2", "llama"}) {
        const TempDir dir;
        const std::string from = std::string(kFixtures) + "/" + name;
        const LoadedModel loaded = LoadModel(from, DataType::kFLOAT32);
        SaveHuggingFace(dir.path() + "/new", *loaded.model);
        std::map<std::string, std::string> metadata;
        const auto before = io::LoadSafetensors(from + "/model.safetensors");
        const auto after = io::LoadSafetensors(dir.path() + "/new/model.safetensors", &metadata);
        ASSERT_EQ(before.size(), after.size());
        for (const auto &[tensor, values] : before) {
            ExpectSameBits(values, after.at(tensor), tensor);
        }
        EXPECT_EQ(metadata.at("format"), "pt");
        ExpectSameModel(*loaded.model, *LoadModel(dir.path() + "/new", DataType::kFLOAT32).model);
        // The file alone, with its config beside it.
        ExpectSameModel(*loaded.model, *LoadModel(dir.path() + "/new/model.safetensors", DataType::kFLOAT32).model);
        // transformers' own fields, those that say something about the model.
        const auto old_fields = nlohmann::json::parse(Contents(from + "/config.json"));
        const auto new_fields = nlohmann::json::parse(Contents(dir.path() + "/new/config.json"));
        for (const char *key : {"architectures",
                                "model_type",
                                "vocab_size",
                                "n_positions",
                                "n_layer",
                                "n_head",
                                "n_embd",
                                "activation_function",
                                "layer_norm_epsilon",
                                "hidden_size",
                                "intermediate_size",
                                "num_hidden_layers",
                                "num_attention_heads",
                                "num_key_value_heads",
                                "head_dim",
                                "rms_norm_eps",
                                "max_position_embeddings",
                                "tie_word_embeddings",
                                "attention_bias",
                                "mlp_bias",
                                "hidden_act",
                                "initializer_range"}) {
            EXPECT_EQ(old_fields.contains(key), new_fields.contains(key)) << key;
            if (old_fields.contains(key)) {
                EXPECT_EQ(old_fields[key], new_fields[key]) << key;
            }
        }
    }
}

TEST(HuggingFace, RoundTripsOfEveryKind) {
    std::vector<nn::TransformerConfig> configs = {SmallGpt2(), SmallLlama(false), SmallLlama(true)};
    configs.push_back(SmallGpt2());
    configs.back().tied = false;
    configs.push_back(SmallLlama(false));
    configs.back().bias = true;
    configs.back().head_size = 6;
    configs.back().rope_theta = 500000;
    configs.back().rope_scaling = {nn::RopeScaling::Type::kLlama3, 32.0, 1.0, 4.0, 8192.0};
    configs.push_back(SmallLlama(true));
    configs.back().rope_scaling = {.type = nn::RopeScaling::Type::kLinear, .factor = 2.0};
    for (const auto &config : configs) {
        for (const DataType dtype : {DataType::kFLOAT32, DataType::kFLOAT64, DataType::kBFLOAT16, DataType::kFLOAT16}) {
            const TempDir dir;
            ManualSeed(1);
            const nn::Transformer model(config, Device(), dtype);
            SaveHuggingFace(dir.path(), model);
            ExpectSameModel(model, *LoadModel(dir.path(), dtype).model);
        }
    }
}

TEST(HuggingFace, ConvertsToTheTypeThatIsAskedFor) {
    const TempDir dir;
    const nn::Transformer model(SmallLlama(false));
    SaveHuggingFace(dir.path(), model);
    const auto half = LoadModel(dir.path(), DataType::kBFLOAT16, Device(), /*dropout=*/0.25).model;
    EXPECT_EQ(half->config().dropout, 0.25);
    const auto converted = model.NamedParameters(), read = half->NamedParameters();
    for (size_t i = 0; i < read.size(); ++i) {
        ExpectSameBits(read[i].second, converted[i].second->To(DataType::kBFLOAT16), read[i].first);
        EXPECT_TRUE(read[i].second->requires_grad());
    }
}

class HuggingFaceFolder : public ::testing::Test {
protected:
    HuggingFaceFolder()
        : model_(LoadModel(std::string(kFixtures) + "/gpt2", DataType::kFLOAT32).model),
          tensors_(io::LoadSafetensors(std::string(kFixtures) + "/gpt2/model.safetensors")),
          config_(nlohmann::json::parse(Contents(std::string(kFixtures) + "/gpt2/config.json"))) {}

    LoadedModel Load() const {
        dir_.Write("config.json", config_.dump());
        io::SaveSafetensors(dir_.path() + "/model.safetensors", tensors_);
        return LoadModel(dir_.path(), DataType::kFLOAT32);
    }
    std::string Refusal() const {
        const std::string message = test::Thrown<IoError>([&] { Load(); });
        EXPECT_TRUE(Contains(message, "LoadModel: " + dir_.path()) && Contains(message, "expected ") &&
                    Contains(message, ", found "))
            << message;
        return message;
    }

    const TempDir dir_;
    std::shared_ptr<nn::Transformer> model_;
    std::map<std::string, TensorPtr> tensors_;
    nlohmann::json config_;
};

TEST_F(HuggingFaceFolder, NamesWithoutPrefixAndBuffers) {
    std::map<std::string, TensorPtr> plain;
    for (const auto &[name, tensor] : tensors_) {
        plain[name.substr(std::string("transformer.").size())] = tensor;
    }
    plain["h.0.attn.bias"] = Tensor::Ones({1, 1, 8, 8});
    plain["h.1.attn.masked_bias"] = Tensor::Zeros({});
    plain["lm_head.weight"] = Tensor::Zeros({20, 8});  // tied: transformers doesn't look at it either
    tensors_ = plain;
    ExpectSameModel(*Load().model, *model_);
}

TEST_F(HuggingFaceFolder, SeveralFilesWithAnIndex) {
    std::map<std::string, TensorPtr> parts[2];
    nlohmann::json index;
    int i = 0;
    for (const auto &[name, tensor] : tensors_) {
        parts[i % 2][name] = tensor;
        index["weight_map"][name] = "part-" + std::to_string(i % 2) + ".safetensors";
        ++i;
    }
    dir_.Write("config.json", config_.dump());
    for (int part = 0; part < 2; ++part) {
        io::SaveSafetensors(dir_.path() + "/part-" + std::to_string(part) + ".safetensors", parts[part]);
    }
    dir_.Write("model.safetensors.index.json", index.dump());
    ExpectSameModel(*LoadModel(dir_.path(), DataType::kFLOAT32).model, *model_);

    const auto refusal = [&] { return test::Thrown<IoError>([&] { LoadModel(dir_.path(), DataType::kFLOAT32); }); };
    for (const char *bad : {"../x", "/etc/passwd", "", ".."}) {
        auto changed = index;
        changed["weight_map"]["transformer.wte.weight"] = bad;
        dir_.Write("model.safetensors.index.json", changed.dump());
        EXPECT_TRUE(Contains(refusal(), "a file of this folder for 'transformer.wte.weight'")) << refusal();
    }
    dir_.Write("model.safetensors.index.json", "{\"weight_map\": [1]}");
    EXPECT_TRUE(Contains(refusal(), "an object as 'weight_map'")) << refusal();
    parts[0].insert(*parts[1].begin());
    io::SaveSafetensors(dir_.path() + "/part-0.safetensors", parts[0]);
    dir_.Write("model.safetensors.index.json", index.dump());
    EXPECT_TRUE(Contains(refusal(), "twice")) << refusal();
}

TEST_F(HuggingFaceFolder, TensorsThatDontFit) {
    const auto whole = tensors_;
    tensors_.erase("transformer.h.1.mlp.c_fc.bias");
    EXPECT_TRUE(Contains(Refusal(), "a tensor 'h.1.mlp.c_fc.bias', found none")) << Refusal();
    tensors_ = whole;
    tensors_["transformer.h.2.ln_1.weight"] = Tensor::Ones({8});
    EXPECT_TRUE(Contains(Refusal(), "also 'transformer.h.2.ln_1.weight'")) << Refusal();
    tensors_ = whole;
    tensors_["transformer.h.0.attn.c_attn.weight"] = Tensor::Ones({24, 8});
    EXPECT_TRUE(
        Contains(Refusal(), "floating-point numbers (8, 24) as 'h.0.attn.c_attn.weight', found float32 (24, 8)"))
        << Refusal();
    tensors_ = whole;
    tensors_["transformer.ln_f.bias"] = Tensor::Zeros({8}, DataType::kINT32);
    EXPECT_TRUE(Contains(Refusal(), "found int32 (8)")) << Refusal();
    tensors_ = whole;
    tensors_["wte.weight"] = Tensor::Zeros({20, 8});
    EXPECT_TRUE(Contains(Refusal(), "'wte.weight' twice")) << Refusal();
}

TEST_F(HuggingFaceFolder, ConfigsThatDontFit) {
    const auto whole = config_;
    const struct {
        const char *key;
        nlohmann::json value;
        const char *says;
    } cases[] = {
        {"model_type", "bert", "gpt2 or llama as 'model_type', found bert"},
        {"model_type", 5, "text as 'model_type'"},
        {"model_type", nullptr, "text as 'model_type', found none"},
        {"n_layer", 3, "a tensor 'h.2.ln_1.weight'"},
        {"n_layer", 2'000'000'000, "the tensors of 2000000000 blocks"},
        {"n_layer", 1e30, "a whole number as 'n_layer'"},
        {"n_layer", 18446744073709551615U, "a whole number as 'n_layer'"},
        {"n_layer", -1, "the sizes of a model"},
        {"n_layer", 0, "the sizes of a model"},
        {"n_head", 3, "divides into 3 heads"},
        {"n_embd", "8", "a whole number as 'n_embd', found \"8\""},
        {"vocab_size", 21, "(21, 8) as 'wte.weight'"},
        {"n_positions", 7, "(7, 8) as 'wpe.weight'"},
        {"layer_norm_epsilon", -1, "eps above 0"},
        {"layer_norm_epsilon", "small", "a number as 'layer_norm_epsilon'"},
        {"activation_function", "relu", "gelu_new"},
        {"tie_word_embeddings", 1, "true or false as 'tie_word_embeddings'"},
        {"tie_word_embeddings", false, "a tensor 'lm_head.weight'"},
        {"scale_attn_by_inverse_layer_idx", true, "false as 'scale_attn_by_inverse_layer_idx'"},
    };
    for (const auto &c : cases) {
        config_ = whole;
        config_[c.key] = c.value;
        EXPECT_TRUE(Contains(Refusal(), c.says)) << c.key << " " << c.value << "\n" << Refusal();
    }
    const auto refused = [&](const std::string &text) {
        dir_.Write("config.json", text);
        return test::Thrown<IoError>([&] { LoadModel(dir_.path(), DataType::kFLOAT32); });
    };
    EXPECT_TRUE(Contains(refused("[]"), "a JSON object"));
    EXPECT_TRUE(Contains(refused(""), "expected JSON"));
    EXPECT_TRUE(Contains(refused("{\"model_type\": \"gpt2\""), "expected JSON"));
    EXPECT_TRUE(Contains(refused(std::string(2 << 20, ' ')), "at most 1048576 bytes"));
    EXPECT_TRUE(Contains(refused("{\"model_type\":\"llama\",\"rope_scaling\":{\"rope_type\":\"yarn\"}}"),
                         "default, linear or llama3, found yarn"));
    EXPECT_TRUE(Contains(refused("{\"model_type\":\"llama\",\"rope_scaling\":{\"type\":\"linear\"}}"),
                         "a number as 'rope_scaling.factor', found none"));
}

TEST(HuggingFace, FoldersWithoutWhatIsNeeded) {
    const TempDir dir;
    const auto refusal = [&] { return test::Thrown<IoError>([&] { LoadModel(dir.path(), DataType::kFLOAT32); }); };
    EXPECT_TRUE(Contains(refusal(), "config.json: expected a readable file, found No such file")) << refusal();
    dir.Write("config.json", "{\"model_type\": \"gpt2\"}");
    EXPECT_TRUE(Contains(refusal(), "model.safetensors or model.safetensors.index.json, found neither")) << refusal();
    dir.Write("pytorch_model.bin", "x");
    EXPECT_TRUE(Contains(refusal(), "save_pretrained")) << refusal();
    EXPECT_TRUE(Contains(test::Thrown<IoError>([&] { LoadModel(dir.path() + "/none.bin", DataType::kFLOAT32); }),
                         "a readable file, found No such file"));
}

TEST(HuggingFace, RefusesToWriteAMixture) {
    auto config = SmallGpt2();
    config.norm = nn::NormType::kRMSNorm;
    const TempDir dir;
    const std::string message =
        test::Thrown<ValueError>([&] { SaveHuggingFace(dir.path() + "/x", nn::Transformer(config)); });
    EXPECT_TRUE(Contains(message, "a mixture of the two")) << message;
    EXPECT_FALSE(std::filesystem::exists(dir.path() + "/x"));
    EXPECT_NE(test::Thrown<IoError>([&] { SaveHuggingFace("/proc/none", nn::Transformer(SmallGpt2())); }), "");
}

// ---- Presets --------------------------------------------------------------------------------------------------------

TEST(Presets, ThePublishedSizes) {
    // Parameters as counted in the published models.
    const std::pair<const char *, int64_t> published[] = {
        {"gpt2", 124439808}, {"gpt2-medium", 354823168}, {"gpt2-large", 774030080}, {"gpt2-xl", 1557611200}};
    const char *depths[] = {"d12", "d24", "d36", "d48"};
    for (int i = 0; i < 4; ++i) {
        EXPECT_EQ(Gpt2Preset(published[i].first)->NumParameters(), published[i].second) << published[i].first;
        EXPECT_EQ(Gpt2Preset(depths[i]), Gpt2Preset(published[i].first));
    }
    for (int depth = 2; depth <= 48; ++depth) {
        const auto config = Gpt2Preset("d" + std::to_string(depth));
        ASSERT_TRUE(config.has_value()) << depth;
        EXPECT_NO_THROW(config->Check());
        EXPECT_EQ(config->layers, depth);
        EXPECT_EQ(config->width, 64 * config->heads);
    }
    EXPECT_EQ(Gpt2Preset("d6")->width, 384);  // llm.c's
    for (const char *name : {"d1", "d0", "d49", "d", "d06", "d6 ", "dd", "gpt3", "", "d-6", "d99999999999999999999"}) {
        EXPECT_FALSE(Gpt2Preset(name).has_value()) << name;
    }
    EXPECT_EQ(LlamaPreset("llama-7b")->NumParameters(), 6738415616);
    EXPECT_EQ(LlamaPreset("stories15m")->NumParameters(), 15191712);
    EXPECT_FALSE(LlamaPreset("stories").has_value());
}

}  // namespace
}  // namespace infini_train::example
