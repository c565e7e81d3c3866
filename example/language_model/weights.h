#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "infini_train/include/nn/modules/transformer/transformer.h"
#include "infini_train/include/tensor.h"

namespace infini_train::example {

/// A tensor of a file, and the part of a model's parameter that it is.
struct Weight {
    std::string name;           // in a safetensors file, without the prefix of transformers' models
    std::vector<int64_t> dims;  // in the file
    std::string parameter;      // its path in the model
    std::function<TensorPtr(const TensorPtr &)> part;  // of the parameter: a view of `dims`

    /// The view of the model's tensor, outside of the graph.
    TensorPtr In(const nn::Transformer &model) const;
};
using Weights = std::vector<Weight>;

/// Of transformers' GPT2LMHeadModel, whose matrices (Conv1D) lie as (in, out), and LlamaForCausalLM, whose rotary pairs
/// are the elements i and i + head_size / 2, as here.
Weights HuggingFaceGpt2Weights(const nn::TransformerConfig &config);
Weights HuggingFaceLlamaWeights(const nn::TransformerConfig &config);

/// In the order of a file of llm.c, the embedding without the rows that pad it.
Weights LlmCWeights(const nn::TransformerConfig &config);
/// In the order of llama2.c's first format and of its version 1. Rotary pairs are 2i and 2i + 1.
Weights Llama2CFirstWeights(const nn::TransformerConfig &config);
Weights Llama2CWeights(const nn::TransformerConfig &config);

}  // namespace infini_train::example
