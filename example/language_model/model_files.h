#pragma once

#include <memory>
#include <optional>
#include <string>

#include "infini_train/include/datatype.h"
#include "infini_train/include/device.h"
#include "infini_train/include/nn/modules/transformer/transformer.h"

namespace infini_train::example {

struct LoadedModel {
    std::shared_ptr<nn::Transformer> model;
    std::string source;  // `Hugging Face GPT-2`, `llm.c, bfloat16`, ...
};

/// Reads a model, converted to `dtype`, with dropout of that probability:
///
/// - a folder as Hugging Face's transformers writes it for GPT-2 or LLaMA (config.json and model.safetensors, or its
///   parts with model.safetensors.index.json), or the path of a .safetensors file that has config.json beside it;
/// - a .bin of llm.c: GPT-2 in float32 (version 3) or bfloat16 (version 5);
/// - a .bin of llama2.c: the first format, without a magic number, and version 1.
///
/// Throws IoError, with the path, what was expected and what was found, for anything else. Sizes are checked before
/// memory is taken; there is no second copy of the weights in memory at any time.
LoadedModel LoadModel(const std::string &path, DataType dtype, Device device = {}, double dropout = 0.0);

/// Writes a folder that transformers' from_pretrained takes, and LoadModel: config.json and model.safetensors, in the
/// model's data type. Throws ValueError for a model that is neither a GPT-2 (LayerNorm, GELU, learned positions,
/// biases) nor a LLaMA (RMSNorm, SwiGLU, rotary positions), IoError with the system's reason.
void SaveHuggingFace(const std::string &folder, const nn::Transformer &model);

/// GPT-2's sizes: `gpt2`, `gpt2-medium`, `gpt2-large`, `gpt2-xl` as published, and by depth, `d2` to `d48`, where d12,
/// d24, d36 and d48 are those four. As in llm.c a head is 64 wide; there are as many heads as blocks up to d12, beyond
/// that their number grows from one published size to the next. Nothing for another name.
std::optional<nn::TransformerConfig> Gpt2Preset(const std::string &name);

/// LLaMA's sizes: llama2.c's `stories260k`, `stories15m`, `stories42m` and `stories110m`, and `llama-7b`. Nothing for
/// another name.
std::optional<nn::TransformerConfig> LlamaPreset(const std::string &name);

}  // namespace infini_train::example
