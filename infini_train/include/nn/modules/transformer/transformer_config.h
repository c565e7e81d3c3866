#pragma once

#include <cstdint>

#include "infini_train/include/common/export.h"

namespace infini_train::nn {

enum class NormType { kLayerNorm, kRMSNorm };

/// What stands between the two projections of a block's MLP: GPT-2's GELU (through tanh) or LLaMA's gated SiLU.
enum class MLPType { kGELU, kSwiGLU };

/// How a model knows where a token stands: a vector for each position that is added to the token's, or queries and keys
/// that are turned by an angle for each position (Su et al., "RoFormer", arXiv:2104.09864).
enum class PositionType { kLearned, kRotary };

/// How the angles of rotary positions are slowed down for contexts longer than those of the first training.
struct RopeScaling {
    enum class Type {
        kNone,
        kLinear,  ///< all of them divided by `factor`
        kLlama3,  ///< LLaMA 3.1: the slow ones divided by `factor`, the fast ones as they are, a ramp between
    };
    Type type = Type::kNone;
    double factor = 1.0;
    double low_frequency_factor = 1.0;   ///< kLlama3: slow is what turns less than this often in the original context
    double high_frequency_factor = 4.0;  ///< kLlama3: fast is what turns more often than this
    double original_context = 8192.0;    ///< kLlama3: the context of the first training

    friend bool operator==(const RopeScaling &, const RopeScaling &) = default;
};

/// The shape of a decoder-only language model. The default is GPT-2 with 124 million parameters; Llama() has LLaMA's
/// choices.
struct INFINI_TRAIN_EXPORT TransformerConfig {
    int64_t vocab_size = 50257;
    int64_t context = 1024;  ///< the most positions; a limit for learned positions, what was trained on for rotary ones
    int64_t layers = 12;
    int64_t heads = 12;
    int64_t kv_heads = 0;   ///< heads of keys and values, each for heads / kv_heads queries; 0: as many as `heads`
    int64_t width = 768;    ///< the length of the vector that a token is inside of the model
    int64_t head_size = 0;  ///< 0: width / heads
    int64_t hidden = 0;     ///< the width inside of the MLP; 0: 4 width, or 8/3 width rounded up to 256 for kSwiGLU
    NormType norm = NormType::kLayerNorm;
    MLPType activation = MLPType::kGELU;
    PositionType position = PositionType::kLearned;
    bool bias = true;             ///< in linear layers and LayerNorm
    bool tied = true;             ///< the output layer's weight is the embedding of the tokens
    double dropout = 0.0;         ///< of the embedding, the attention's weights, and what each half of a block adds
    double eps = 1e-5;            ///< of the normalisation
    double rope_theta = 10000.0;  ///< the base of rotary angles
    RopeScaling rope_scaling;
    double init_std = 0.02;  ///< of matrices at first; c_proj, which adds to the residual, has 1 / sqrt(2 layers) of it

    /// RMSNorm, SwiGLU, rotary positions, an output layer of its own, no biases; sizes as given.
    static TransformerConfig Llama(int64_t vocab_size, int64_t context, int64_t layers, int64_t heads, int64_t width);

    int64_t KvHeads() const { return kv_heads != 0 ? kv_heads : heads; }
    int64_t HeadSize() const { return head_size != 0 ? head_size : width / heads; }
    int64_t Hidden() const;
    /// The elements of all parameters, a shared one counted once.
    int64_t NumParameters() const;

    /// Throws ValueError, with the name of the field, for what makes no model: a size below 1, heads that don't divide
    /// the width or aren't a multiple of kv_heads, an odd head size with rotary positions, a probability outside of
    /// [0, 1], parameters that can't be counted in 63 bits.
    void Check() const;

    friend bool operator==(const TransformerConfig &, const TransformerConfig &) = default;
};

}  // namespace infini_train::nn
