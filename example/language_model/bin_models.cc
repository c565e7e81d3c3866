#include "example/language_model/bin_models.h"

#include <array>
#include <cstdlib>

#include <fmt/format.h>

#include "infini_train/include/common/error.h"

#include "example/language_model/weights.h"

// The formats: train_gpt2.py of https://github.com/karpathy/llm.c and export.py of https://github.com/karpathy/llama2.c

namespace infini_train::example {
namespace {

constexpr uint64_t kLlmCHeaderBytes = 256 * sizeof(int32_t);
constexpr uint64_t kLlama2CHeaderBytes = 256;
constexpr uint64_t kLlama2CFirstHeaderBytes = 7 * sizeof(int32_t);

// Checks the config of a file, and that the file has as many bytes as its weights need: `besides` elements are in the
// file and not in the model.
void CheckSizes(const io::BinaryFile &file, const nn::TransformerConfig &config, int64_t besides, DataType stored,
                uint64_t header_bytes) {
    try {
        config.Check();
    } catch (const ValueError &error) {
        file.Fail("sizes that make a model", error.what());
    }
    if (besides > int64_t{1} << 60) {  // as many as Check allows, so that the sum can be counted in bytes
        file.Fail("sizes that make a model", fmt::format("{} elements besides its own", besides));
    }
    const uint64_t elements = static_cast<uint64_t>(config.NumParameters()) + static_cast<uint64_t>(besides);
    const uint64_t wanted = header_bytes + elements * SizeOf(stored);
    if (file.size() != wanted) {
        file.Fail(fmt::format("{} bytes for {} blocks of {} heads, {} wide, a vocabulary of {} and a context of {}",
                              wanted, config.layers, config.heads, config.width, config.vocab_size, config.context),
                  fmt::format("{} bytes", file.size()));
    }
}

// Fills a model from weights that lie one after the other, and gives where they end. `gap` elements follow the first.
uint64_t ReadWeights(const io::BinaryFile &file, uint64_t offset, DataType stored, const Weights &weights,
                     const nn::Transformer &model, int64_t gap = 0) {
    for (const Weight &weight : weights) {
        const TensorPtr part = weight.In(model);
        file.ReadTensor(offset, stored, part, weight.parameter);
        offset += static_cast<uint64_t>(part->NumElements() + gap) * SizeOf(stored);
        gap = 0;
    }
    return offset;
}

std::shared_ptr<nn::Transformer> NewModel(nn::TransformerConfig config, const ModelOptions &options) {
    config.dropout = options.dropout;
    return std::make_shared<nn::Transformer>(config, options.device, options.dtype, /*initialize=*/false);
}

// The seven sizes of llama2.c's headers.
struct Llama2CSizes {
    int32_t width, hidden, layers, heads, kv_heads, vocab_size, context;
};

nn::TransformerConfig ConfigOf(const io::BinaryFile &file, const Llama2CSizes &sizes) {
    for (const auto &[what, size] : {std::pair{"width", sizes.width},
                                     {"hidden width", sizes.hidden},
                                     {"number of blocks", sizes.layers},
                                     {"number of heads", sizes.heads},
                                     {"number of heads of keys and values", sizes.kv_heads},
                                     {"vocabulary", sizes.vocab_size},
                                     {"context", sizes.context}}) {
        if (size < 1) {
            file.Fail(fmt::format("a {} of at least 1", what), std::to_string(size));
        }
    }
    auto config = nn::TransformerConfig::Llama(sizes.vocab_size, sizes.context, sizes.layers, sizes.heads, sizes.width);
    config.hidden = sizes.hidden;
    config.kv_heads = sizes.kv_heads;
    return config;
}

}  // namespace

LoadedModel LoadLlmC(const io::BinaryFile &file, const ModelOptions &options) {
    std::array<int32_t, 256> header{};
    file.Read(0, header.data(), sizeof(header), "a header of 256 numbers");
    const int32_t version = header[1];
    if (version != 3 && version != 5) {
        file.Fail("version 3 (float32) or 5 (bfloat16) of llm.c's GPT-2", fmt::format("version {}", version));
    }
    const DataType stored = version == 3 ? DataType::kFLOAT32 : DataType::kBFLOAT16;
    nn::TransformerConfig config;
    config.context = header[2];
    config.vocab_size = header[3];
    config.layers = header[4];
    config.heads = header[5];
    config.width = header[6];
    const int64_t padding = int64_t{header[7]} - config.vocab_size;
    if (padding < 0 || config.width < 1) {
        file.Fail(fmt::format("a padded vocabulary of at least {} and a width of at least 1", config.vocab_size),
                  fmt::format("{} and {}", header[7], config.width));
    }
    CheckSizes(file, config, padding * config.width, stored, kLlmCHeaderBytes);
    const auto model = NewModel(config, options);
    ReadWeights(file, kLlmCHeaderBytes, stored, LlmCWeights(config), *model, padding * config.width);
    return {model, fmt::format("llm.c, {}", ToString(stored))};
}

LoadedModel LoadLlama2CFirst(const io::BinaryFile &file, const ModelOptions &options) {
    Llama2CSizes sizes{};
    file.Read(0, &sizes, sizeof(sizes), "a header of 7 numbers");
    const bool tied = sizes.vocab_size > 0;  // a negative one says that the output layer has weights of its own
    sizes.vocab_size = sizes.vocab_size == INT32_MIN ? 0 : std::abs(sizes.vocab_size);
    nn::TransformerConfig config = ConfigOf(file, sizes);
    config.tied = tied;
    // The table of rotary cosines and sines that the file holds is computed here.
    const int64_t table = config.context * (config.width / config.heads);
    CheckSizes(file, config, table, DataType::kFLOAT32, kLlama2CFirstHeaderBytes);
    const auto model = NewModel(config, options);
    uint64_t offset =
        ReadWeights(file, kLlama2CFirstHeaderBytes, DataType::kFLOAT32, Llama2CFirstWeights(config), *model);
    if (!tied) {
        offset += static_cast<uint64_t>(table) * sizeof(float);
        file.ReadTensor(offset, DataType::kFLOAT32, model->module("lm_head")->parameter("weight"), "lm_head.weight");
    }
    return {model, "llama2.c"};
}

LoadedModel LoadLlama2C(const io::BinaryFile &file, const ModelOptions &options) {
    int32_t version = 0;
    Llama2CSizes sizes{};
    uint8_t tied = 0;
    file.Read(4, &version, sizeof(version), "a version");
    if (version != 1) {
        file.Fail("version 1 (float32) of llama2.c's format", fmt::format("version {}", version));
    }
    file.Read(8, &sizes, sizeof(sizes), "7 sizes");
    file.Read(8 + sizeof(sizes), &tied, sizeof(tied), "the flag of a shared classifier");
    nn::TransformerConfig config = ConfigOf(file, sizes);
    config.tied = tied != 0;
    CheckSizes(file, config, 0, DataType::kFLOAT32, kLlama2CHeaderBytes);
    const auto model = NewModel(config, options);
    const uint64_t offset = ReadWeights(file, kLlama2CHeaderBytes, DataType::kFLOAT32, Llama2CWeights(config), *model);
    if (!config.tied) {
        file.ReadTensor(offset, DataType::kFLOAT32, model->module("lm_head")->parameter("weight"), "lm_head.weight");
    }
    return {model, "llama2.c"};
}

}  // namespace infini_train::example
