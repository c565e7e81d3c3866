#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "infini_train/include/datatype.h"
#include "infini_train/include/device.h"
#include "infini_train/include/nn/modules/transformer/transformer.h"
#include "infini_train/include/text/tokenizer.h"

namespace infini_train::example {

/// What tells the trainers apart.
struct ModelFamily {
    std::string name;     // the program's
    std::string summary;  // for --help
    bool is_llama = false;
    int64_t vocab_size = 50257;         // where nothing else says it
    std::vector<std::string> examples;  // command lines, for --help
    std::vector<std::string> presets;   // some of the names that `preset` knows, to suggest
    std::function<std::optional<nn::TransformerConfig>(const std::string &)> preset;
};

/// The config that --model or the sizes ask for. Throws UsageError.
nn::TransformerConfig ConfigFromFlags(const ModelFamily &family, int64_t vocab_size);

/// A config as text, and back: for a checkpoint. Throws IoError, naming `path`, for what ConfigToText didn't write.
std::map<std::string, std::string> ConfigToText(const nn::TransformerConfig &config);
nn::TransformerConfig ConfigFromText(const std::map<std::string, std::string> &values, const std::string &path);

/// A model and how to name it; `tokenizer` is the path of what lies beside the weights, or "".
struct ModelSource {
    std::shared_ptr<nn::Transformer> model;
    std::string description;
    std::string tokenizer;
};

/// Weights in any format of model_files.h, or a checkpoint of the trainers (one of its folders, or the folder of them
/// all). `dropout` is what the model is to have.
ModelSource LoadModelFrom(const std::string &path, DataType dtype, double dropout, Device device);

/// Writes a folder that Hugging Face's transformers reads, also of a GPT-2 without biases. Throws as SaveHuggingFace.
void SaveModelTo(const std::string &folder, const nn::Transformer &model);

/// Checks that a sequence fits into the model. Throws UsageError.
void CheckContext(const nn::TransformerConfig &config, int64_t sequence_length);

/// `4 blocks of 4 heads, 128 wide, context 64`.
std::string DescribeConfig(const nn::TransformerConfig &config);

}  // namespace infini_train::example
