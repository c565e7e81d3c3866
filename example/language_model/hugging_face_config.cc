#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "infini_train/include/common/error.h"

#include "example/language_model/hugging_face.h"
#include "example/language_model/json_file.h"

// The fields are those of transformers' GPT2Config and LlamaConfig, absent ones with its defaults.

namespace infini_train::example {
namespace {

constexpr size_t kMostConfigBytes = size_t{1} << 20;
constexpr int64_t kEndOfText = 50256;  // of GPT-2's vocabulary

void Expect(const JsonFile &file, bool holds, const char *expected, const std::string &found) {
    if (!holds) {
        file.Fail(expected, found);
    }
}

nn::TransformerConfig ReadGpt2(const JsonFile &file) {
    nn::TransformerConfig config;
    config.vocab_size = file.Integer("vocab_size", 50257);
    config.context = file.Integer("n_positions", 1024);
    config.layers = file.Integer("n_layer", 12);
    config.heads = file.Integer("n_head", 12);
    config.width = file.Integer("n_embd", 768);
    config.hidden = file.Integer("n_inner", 0);
    config.eps = file.Number("layer_norm_epsilon", 1e-5);
    config.init_std = file.Number("initializer_range", 0.02);
    config.tied = file.Bool("tie_word_embeddings", true);
    const std::string activation = file.Text("activation_function", "gelu_new");
    Expect(file, activation == "gelu_new" || activation == "gelu_pytorch_tanh",
           "gelu_new, the GELU through tanh, as 'activation_function'", activation);
    Expect(file, file.Bool("scale_attn_weights", true), "true as 'scale_attn_weights'", "false");
    Expect(file, !file.Bool("scale_attn_by_inverse_layer_idx", false), "false as 'scale_attn_by_inverse_layer_idx'",
           "true");
    Expect(file, !file.Bool("add_cross_attention", false), "false as 'add_cross_attention'", "true");
    return config;
}

nn::RopeScaling ReadScaling(const JsonFile &file) {
    nn::RopeScaling scaling;
    const std::string type = file.Text("rope_type", file.Text("type", "default"));
    if (type == "default") {
        return scaling;
    }
    Expect(file, type == "linear" || type == "llama3", "a rotary scaling of default, linear or llama3", type);
    scaling.factor = file.Number("factor");
    scaling.type = nn::RopeScaling::Type::kLinear;
    if (type == "llama3") {
        scaling.type = nn::RopeScaling::Type::kLlama3;
        scaling.low_frequency_factor = file.Number("low_freq_factor");
        scaling.high_frequency_factor = file.Number("high_freq_factor");
        scaling.original_context = file.Number("original_max_position_embeddings");
    }
    return scaling;
}

nn::TransformerConfig ReadLlama(const JsonFile &file) {
    auto config =
        nn::TransformerConfig::Llama(file.Integer("vocab_size", 32000), file.Integer("max_position_embeddings", 2048),
                                     file.Integer("num_hidden_layers", 32), file.Integer("num_attention_heads", 32),
                                     file.Integer("hidden_size", 4096));
    config.hidden = file.Integer("intermediate_size", 11008);
    config.kv_heads = file.Integer("num_key_value_heads", 0);
    config.head_size = file.Integer("head_dim", 0);
    config.eps = file.Number("rms_norm_eps", 1e-6);
    config.init_std = file.Number("initializer_range", 0.02);
    config.tied = file.Bool("tie_word_embeddings", false);
    config.rope_theta = file.Number("rope_theta", 10000.0);
    for (const char *key : {"rope_scaling", "rope_parameters"}) {
        if (file.Has(key)) {
            const JsonFile rope = file.Object(key);
            config.rope_theta = rope.Number("rope_theta", config.rope_theta);
            config.rope_scaling = ReadScaling(rope);
        }
    }
    config.bias = file.Bool("attention_bias", false);
    Expect(file, file.Bool("mlp_bias", false) == config.bias, "the same as 'attention_bias' and 'mlp_bias'",
           "two values");
    const std::string activation = file.Text("hidden_act", "silu");
    Expect(file, activation == "silu", "silu as 'hidden_act'", activation);
    return config;
}

nlohmann::ordered_json Gpt2Fields(const nn::TransformerConfig &config) {
    nlohmann::ordered_json fields;
    fields["architectures"] = {"GPT2LMHeadModel"};
    fields["model_type"] = "gpt2";
    fields["vocab_size"] = config.vocab_size;
    fields["n_positions"] = config.context;
    fields["n_ctx"] = config.context;
    fields["n_layer"] = config.layers;
    fields["n_head"] = config.heads;
    fields["n_embd"] = config.width;
    fields["n_inner"] = config.Hidden();
    fields["activation_function"] = "gelu_new";
    fields["layer_norm_epsilon"] = config.eps;
    for (const char *key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) {
        fields[key] = config.dropout;
    }
    for (const char *key : {"bos_token_id", "eos_token_id"}) {
        fields[key] = config.vocab_size > kEndOfText ? nlohmann::ordered_json(kEndOfText) : nullptr;
    }
    return fields;
}

nlohmann::ordered_json LlamaFields(const nn::TransformerConfig &config) {
    nlohmann::ordered_json fields;
    fields["architectures"] = {"LlamaForCausalLM"};
    fields["model_type"] = "llama";
    fields["vocab_size"] = config.vocab_size;
    fields["max_position_embeddings"] = config.context;
    fields["num_hidden_layers"] = config.layers;
    fields["num_attention_heads"] = config.heads;
    fields["num_key_value_heads"] = config.KvHeads();
    fields["hidden_size"] = config.width;
    fields["head_dim"] = config.HeadSize();
    fields["intermediate_size"] = config.Hidden();
    fields["hidden_act"] = "silu";
    fields["rms_norm_eps"] = config.eps;
    fields["rope_theta"] = config.rope_theta;
    const nn::RopeScaling &scaling = config.rope_scaling;
    if (scaling.type != nn::RopeScaling::Type::kNone) {
        auto &rope = fields["rope_scaling"];
        rope["rope_type"] = scaling.type == nn::RopeScaling::Type::kLinear ? "linear" : "llama3";
        rope["factor"] = scaling.factor;
        if (scaling.type == nn::RopeScaling::Type::kLlama3) {
            rope["low_freq_factor"] = scaling.low_frequency_factor;
            rope["high_freq_factor"] = scaling.high_frequency_factor;
            rope["original_max_position_embeddings"] = static_cast<int64_t>(scaling.original_context);
        }
    }
    fields["attention_bias"] = config.bias;
    fields["mlp_bias"] = config.bias;
    fields["attention_dropout"] = config.dropout;
    return fields;
}

}  // namespace

bool IsLlama(const nn::TransformerConfig &config) {
    return config.position == nn::PositionType::kRotary;
}

nn::TransformerConfig ReadHuggingFaceConfig(const std::string &path) {
    const JsonFile file(path, kMostConfigBytes);
    const std::string type = file.Text("model_type");
    Expect(file, type == "gpt2" || type == "llama", "gpt2 or llama as 'model_type'", type);
    const nn::TransformerConfig config = type == "gpt2" ? ReadGpt2(file) : ReadLlama(file);
    try {
        config.Check();
    } catch (const ValueError &error) {
        file.Fail("the sizes of a model", error.what());
    }
    return config;
}

std::string HuggingFaceConfig(const nn::TransformerConfig &config, DataType dtype) {
    const bool is_gpt2 = config.norm == nn::NormType::kLayerNorm && config.activation == nn::MLPType::kGELU &&
                         config.position == nn::PositionType::kLearned && config.bias &&
                         config.KvHeads() == config.heads && config.HeadSize() * config.heads == config.width;
    const bool is_llama = config.norm == nn::NormType::kRMSNorm && config.activation == nn::MLPType::kSwiGLU &&
                          config.position == nn::PositionType::kRotary;
    if (!is_gpt2 && !is_llama) {
        throw ValueError(
            "SaveHuggingFace: expected a GPT-2 (LayerNorm, GELU, learned positions, biases, as many heads of keys as "
            "of "
            "queries) or a LLaMA (RMSNorm, SwiGLU, rotary positions), got a mixture of the two");
    }
    nlohmann::ordered_json fields = is_gpt2 ? Gpt2Fields(config) : LlamaFields(config);
    fields["initializer_range"] = config.init_std;
    fields["tie_word_embeddings"] = config.tied;
    fields["torch_dtype"] = ToString(dtype);
    return fields.dump(2) + "\n";
}

}  // namespace infini_train::example
