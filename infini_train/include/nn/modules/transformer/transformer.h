#pragma once

#include <cstdint>
#include <string>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/datatype.h"
#include "infini_train/include/device.h"
#include "infini_train/include/nn/modules/module.h"
#include "infini_train/include/nn/modules/transformer/key_value_cache.h"
#include "infini_train/include/nn/modules/transformer/transformer_config.h"

namespace infini_train::nn {

/// One layer of a Transformer, normalising before each half: (B, T, width) gives x + attn(ln_1(x)), then that plus
/// mlp(ln_2(that)). Inputs {x, keys, values} as those of CausalSelfAttention. Children: `ln_1`, `attn`, `ln_2`, `mlp`.
class INFINI_TRAIN_EXPORT TransformerBlock : public CloneableModule<TransformerBlock> {
public:
    static constexpr char kType[] = "TransformerBlock";
    static constexpr char kLn1LayerName[] = "ln_1";
    static constexpr char kAttnLayerName[] = "attn";
    static constexpr char kLn2LayerName[] = "ln_2";
    static constexpr char kMlpLayerName[] = "mlp";

    /// First values and errors as in CausalSelfAttention.
    explicit TransformerBlock(const TransformerConfig &config, Device device = {}, DataType dtype = DataType::kFLOAT32,
                              bool initialize = true);

    TensorList Forward(const TensorList &inputs) override;
};

/// A decoder-only language model: GPT-2, LLaMA and what lies between, by its config. Token ids (B, T), integers, give
/// logits (B, T, vocab_size): at each position one for each token that may come next.
///
///     auto model = std::make_shared<nn::Transformer>(nn::TransformerConfig{.layers = 2, .width = 48});
///     auto logits = (*model)({ids})[0];
///     auto loss = nn::function::CrossEntropy(logits->View({-1, logits->Dim(-1)}), next_ids->View({-1}));
///
/// Children: `wte` (tokens), `wpe` (learned positions), `drop`, `h` (the blocks, `h.0`, `h.1`, ...), `ln_f`, `lm_head`,
/// whose weight is that of `wte` if config.tied. Names of GPT-2's parameters are those of Hugging Face's.
class INFINI_TRAIN_EXPORT Transformer : public CloneableModule<Transformer> {
public:
    static constexpr char kType[] = "Transformer";
    static constexpr char kWTELayerName[] = "wte";
    static constexpr char kWPELayerName[] = "wpe";
    static constexpr char kDropLayerName[] = "drop";
    static constexpr char kHLayerName[] = "h";
    static constexpr char kLnFLayerName[] = "ln_f";
    static constexpr char kLMHeadLayerName[] = "lm_head";

    /// GPT-2's first values, drawn from DefaultGenerator(): matrices and embeddings normal with config.init_std, the
    /// projections into the residual (c_proj) with 1 / sqrt(2 layers) of it, biases 0, norms 1. Without `initialize`
    /// matrices and biases are whatever the memory holds, for weights that are about to be loaded. Throws ValueError as
    /// TransformerConfig::Check does.
    explicit Transformer(const TransformerConfig &config, Device device = {}, DataType dtype = DataType::kFLOAT32,
                         bool initialize = true);

    /// {ids (B, T)} -> {logits (B, T, vocab_size)}. Throws ShapeError and DtypeError for other ids, IndexError for an
    /// id outside of the vocabulary and for more positions than learned ones.
    TensorList Forward(const TensorList &inputs) override;

    /// Goes on after what `cache` holds, and adds to it: ids (B, T) -> logits (B, vocab_size) of the last position,
    /// which agree with Forward's up to rounding. Outside of the graph. Modules below run with their hooks. Throws as
    /// Forward, ShapeError for a cache of another batch or number of layers, IndexError for one that is full: it is as
    /// before whenever something is thrown.
    TensorPtr Decode(const TensorPtr &ids, KeyValueCache *cache);

    const TransformerConfig &config() const { return config_; }

    /// Whether the blocks' saved tensors are computed again in the backward pass rather than kept
    /// (autograd::Checkpoint): memory of one block and of the inputs of all, for about a third more time. Off at first.
    void CheckpointActivations(bool on) { checkpoint_ = on; }
    bool checkpoints_activations() const { return checkpoint_; }

    /// The parameters that weight decay is for, matrices and tables, and the others, biases and norms.
    TensorList DecayParameters() const;
    TensorList NoDecayParameters() const;

protected:
    std::string ExtraRepr() const override;

private:
    TensorPtr Embed(const TensorPtr &ids, int64_t first);
    void CheckIds(const TensorPtr &ids, int64_t first) const;

    const TransformerConfig config_;
    bool checkpoint_ = false;
};

}  // namespace infini_train::nn
