#pragma once

#include <string>

#include "example/language_model/bin_models.h"
#include "example/language_model/model_files.h"

namespace infini_train::example {

/// A model of transformers: config.json, and weights in one safetensors file (`weights`) or, where that is empty, in
/// the files of `folder` that it would look for.
LoadedModel LoadHuggingFace(const std::string &folder, const std::string &weights, const ModelOptions &options);

/// The model that a config.json describes. Throws IoError for one that isn't there, isn't understood, or asks for what
/// nn::Transformer hasn't.
nn::TransformerConfig ReadHuggingFaceConfig(const std::string &path);
/// The text of a config.json. Throws ValueError for a model that is neither GPT-2 nor LLaMA.
std::string HuggingFaceConfig(const nn::TransformerConfig &config, DataType dtype);

/// Whether a config is one of LLaMA's shape; otherwise it is one of GPT-2's.
bool IsLlama(const nn::TransformerConfig &config);

}  // namespace infini_train::example
