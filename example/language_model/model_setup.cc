#include "example/language_model/model_setup.h"

#include <filesystem>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "infini_train/include/checkpoint/checkpoint.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/tensor.h"

#include "example/common/flags.h"
#include "example/language_model/corpus.h"
#include "example/language_model/flags.h"
#include "example/language_model/model_files.h"

namespace infini_train::example {
namespace {

namespace fs = std::filesystem;

constexpr char kPrefix[] = "config.";

// Calls `field(name, value)` for each member.
template <typename Config, typename Field>
void ForEachField(Config &config, Field &&field) {
    field("vocab_size", config.vocab_size);
    field("context", config.context);
    field("layers", config.layers);
    field("heads", config.heads);
    field("kv_heads", config.kv_heads);
    field("width", config.width);
    field("head_size", config.head_size);
    field("hidden", config.hidden);
    field("norm", config.norm);
    field("activation", config.activation);
    field("position", config.position);
    field("bias", config.bias);
    field("tied", config.tied);
    field("dropout", config.dropout);
    field("eps", config.eps);
    field("rope_theta", config.rope_theta);
    field("rope_scaling.type", config.rope_scaling.type);
    field("rope_scaling.factor", config.rope_scaling.factor);
    field("rope_scaling.low_frequency_factor", config.rope_scaling.low_frequency_factor);
    field("rope_scaling.high_frequency_factor", config.rope_scaling.high_frequency_factor);
    field("rope_scaling.original_context", config.rope_scaling.original_context);
    field("init_std", config.init_std);
}

// The checkpoint of a path: itself, or the latest one in it; "" if there is none.
std::string CheckpointAt(const std::string &path) {
    std::error_code ignored;
    if (fs::exists(fs::path(path) / "checkpoint.json", ignored)) {
        return path;
    }
    return fs::is_directory(path, ignored) ? CheckpointFolder(path).Latest().value_or("") : "";
}

std::string TokenizerBeside(const std::string &path) {
    const fs::path absolute = fs::absolute(path).lexically_normal();
    const std::string inside = fs::is_directory(absolute) ? FindTokenizer(absolute.string()) : "";
    const fs::path trimmed = absolute.has_filename() ? absolute : absolute.parent_path();
    return inside.empty() ? FindTokenizer(trimmed.parent_path().string()) : inside;
}

}  // namespace

nn::TransformerConfig ConfigFromFlags(const ModelFamily &family, int64_t vocab_size) {
    nn::TransformerConfig config;
    if (!FLAGS_model.empty()) {
        const auto preset = family.preset(FLAGS_model);
        if (!preset) {
            RequireOneOf("model", FLAGS_model, family.presets);
        }
        config = preset.value();
        for (const char *flag : {"n_layer", "n_head", "n_kv_head", "n_embd", "n_hidden"}) {
            if (IsGiven(flag)) {
                throw UsageError(fmt::format("--model={} has its own sizes: leave --{} out", FLAGS_model, flag));
            }
        }
    } else {
        if (family.is_llama) {
            config = nn::TransformerConfig::Llama(vocab_size, FLAGS_sequence_length, FLAGS_n_layer, FLAGS_n_head,
                                                  FLAGS_n_embd);
        }
        config.context = FLAGS_sequence_length;
        config.layers = FLAGS_n_layer;
        config.heads = FLAGS_n_head;
        config.kv_heads = FLAGS_n_kv_head;
        config.width = FLAGS_n_embd;
        config.hidden = FLAGS_n_hidden;
    }
    config.vocab_size = vocab_size;
    config.bias = config.bias && FLAGS_bias;
    config.dropout = FLAGS_dropout;
    try {
        config.Check();
    } catch (const ValueError &error) {
        throw UsageError(error.what());
    }
    return config;
}

std::map<std::string, std::string> ConfigToText(const nn::TransformerConfig &config) {
    std::map<std::string, std::string> values;
    ForEachField(config, [&](const char *name, const auto &value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_enum_v<T> || std::is_same_v<T, bool>) {
            values[std::string(kPrefix) + name] = std::to_string(static_cast<int>(value));
        } else {
            values[std::string(kPrefix) + name] = fmt::format("{}", value);
        }
    });
    return values;
}

nn::TransformerConfig ConfigFromText(const std::map<std::string, std::string> &values, const std::string &path) {
    nn::TransformerConfig config;
    ForEachField(config, [&](const char *name, auto &value) {
        const auto found = values.find(std::string(kPrefix) + name);
        if (found == values.end()) {
            throw IoError(fmt::format("{}: expected a checkpoint of gpt2 or llama, found none of its '{}{}'", path,
                                      kPrefix, name));
        }
        try {
            value = static_cast<std::decay_t<decltype(value)>>(std::stod(found->second));
        } catch (const std::exception &) {
            throw IoError(fmt::format("{}: '{}{}': expected a number, found '{}'", path, kPrefix, name, found->second));
        }
    });
    config.Check();
    return config;
}

ModelSource LoadModelFrom(const std::string &path, DataType dtype, double dropout, Device device) {
    const std::string checkpoint = CheckpointAt(path);
    if (checkpoint.empty()) {
        LoadedModel loaded = LoadModel(path, dtype, device, dropout);
        return {loaded.model, loaded.source, TokenizerBeside(path)};
    }
    const CheckpointInfo info = Checkpoint::Verify(checkpoint);
    nn::TransformerConfig config = ConfigFromText(info.flags, checkpoint);
    config.dropout = dropout;
    auto model = std::make_shared<nn::Transformer>(config, device, dtype, /*initialize=*/false);
    Checkpoint::Load(checkpoint, {.model = model.get(), .generator = nullptr});
    return {model, fmt::format("checkpoint of step {}", info.step), TokenizerBeside(checkpoint)};
}

void SaveModelTo(const std::string &folder, const nn::Transformer &model) {
    nn::TransformerConfig config = model.config();
    if (config.bias || config.norm != nn::NormType::kLayerNorm) {
        SaveHuggingFace(folder, model);
        return;
    }
    // Hugging Face's GPT-2 always has biases: those of 0 change nothing.
    config.bias = true;
    const TensorPtr first = model.Parameters().front();
    nn::Transformer with_biases(config, first->GetDevice(), first->Dtype());
    with_biases.LoadStateDict(model.StateDict(), /*strict=*/false);
    SaveHuggingFace(folder, with_biases);
}

void CheckContext(const nn::TransformerConfig &config, int64_t sequence_length) {
    if (config.position == nn::PositionType::kLearned && sequence_length > config.context) {
        throw UsageError(fmt::format("flag --sequence_length: expected at most {}, the model's context, got {}",
                                     config.context, sequence_length));
    }
}

std::string DescribeConfig(const nn::TransformerConfig &config) {
    std::string text =
        fmt::format("{} block{} of {} heads", config.layers, config.layers == 1 ? "" : "s", config.heads);
    if (config.KvHeads() != config.heads) {
        text += fmt::format(" ({} of keys and values)", config.KvHeads());
    }
    return text + fmt::format(", {} wide, context {}", config.width, config.context);
}

}  // namespace infini_train::example
