#include "infini_train/include/nn/modules/transformer/transformer_config.h"

#include <cmath>

#include "infini_train/include/common/error.h"

#include "infini_train/src/common/format.h"

namespace infini_train::nn {
namespace {

void CheckSize(const char *name, int64_t value, int64_t least = 1) {
    // The limit keeps products of three sizes within 63 bits or so; CountParameters has the last word.
    constexpr int64_t kMost = int64_t{1} << 31;
    if (value < least || value > kMost) {
        Throw<ValueError>("TransformerConfig: expected {} of {} to {}, got {}", name, least, kMost, value);
    }
}

void CheckPositive(const char *name, double value) {
    if (!(value > 0) || !std::isfinite(value)) {
        Throw<ValueError>("TransformerConfig: expected {} above 0, got {}", name, value);
    }
}

void CheckHeads(const TransformerConfig &config) {
    if (config.head_size == 0 && config.width % config.heads != 0) {
        Throw<ValueError>("TransformerConfig: expected a width that divides into {} heads, got {}", config.heads,
                          config.width);
    }
    if (config.heads % config.KvHeads() != 0) {
        Throw<ValueError>("TransformerConfig: expected heads that are a multiple of the {} kv_heads, got {}",
                          config.KvHeads(), config.heads);
    }
    if (config.position == PositionType::kRotary && config.HeadSize() % 2 != 0) {
        Throw<ValueError>("TransformerConfig: expected an even head size for rotary positions, got {}",
                          config.HeadSize());
    }
}

void CheckRope(const TransformerConfig &config) {
    CheckPositive("rope_theta", config.rope_theta);
    const RopeScaling &scaling = config.rope_scaling;
    if (scaling.type == RopeScaling::Type::kNone) {
        return;
    }
    CheckPositive("rope_scaling.factor", scaling.factor);
    if (scaling.type == RopeScaling::Type::kLlama3) {
        CheckPositive("rope_scaling.original_context", scaling.original_context);
        CheckPositive("rope_scaling.low_frequency_factor", scaling.low_frequency_factor);
        CheckPositive("rope_scaling.high_frequency_factor", scaling.high_frequency_factor);
        if (scaling.low_frequency_factor >= scaling.high_frequency_factor) {
            Throw<ValueError>(
                "TransformerConfig: expected a rope_scaling.low_frequency_factor below the high_frequency_factor {}, "
                "got {}",
                scaling.high_frequency_factor, scaling.low_frequency_factor);
        }
    }
}

// In floating point: sizes that overflow are what is looked for.
template <typename T>
T CountParameters(const TransformerConfig &config) {
    const auto of = [](int64_t size) { return static_cast<T>(size); };
    const T width = of(config.width), hidden = of(config.Hidden()), bias = config.bias ? 1 : 0;
    const T heads = of(config.heads) * of(config.HeadSize());
    const T qkv = heads + 2 * of(config.KvHeads()) * of(config.HeadSize());
    const T norm = config.norm == NormType::kLayerNorm ? width * (1 + bias) : width;
    const T inner = config.activation == MLPType::kSwiGLU ? 2 * hidden : hidden;
    const T attention = (width + bias) * qkv + (heads + bias) * width;
    const T mlp = (width + bias) * inner + (hidden + bias) * width;
    const T tables = of(config.vocab_size) * (config.tied ? 1 : 2) +
                     (config.position == PositionType::kLearned ? of(config.context) : T(0));
    return tables * width + of(config.layers) * (2 * norm + attention + mlp) + norm;
}

}  // namespace

TransformerConfig TransformerConfig::Llama(int64_t vocab_size, int64_t context, int64_t layers, int64_t heads,
                                           int64_t width) {
    TransformerConfig config;
    config.vocab_size = vocab_size;
    config.context = context;
    config.layers = layers;
    config.heads = heads;
    config.width = width;
    config.norm = NormType::kRMSNorm;
    config.activation = MLPType::kSwiGLU;
    config.position = PositionType::kRotary;
    config.bias = false;
    config.tied = false;
    return config;
}

int64_t TransformerConfig::Hidden() const {
    if (hidden != 0) {
        return hidden;
    }
    return activation == MLPType::kGELU ? 4 * width : (8 * width / 3 + 255) / 256 * 256;
}

int64_t TransformerConfig::NumParameters() const {
    return CountParameters<int64_t>(*this);
}

void TransformerConfig::Check() const {
    CheckSize("vocab_size", vocab_size);
    CheckSize("context", context);
    CheckSize("layers", layers);
    CheckSize("heads", heads);
    CheckSize("kv_heads", kv_heads, 0);
    CheckSize("width", width);
    CheckSize("head_size", head_size, 0);
    CheckSize("hidden", hidden, 0);
    CheckHeads(*this);
    CheckRope(*this);
    CheckPositive("eps", eps);
    if (!(dropout >= 0 && dropout <= 1)) {
        Throw<ValueError>("TransformerConfig: expected a dropout in [0, 1], got {}", dropout);
    }
    if (!(init_std >= 0) || !std::isfinite(init_std)) {
        Throw<ValueError>("TransformerConfig: expected an init_std of at least 0, got {}", init_std);
    }
    if (CountParameters<double>(*this) > 0x1p60) {
        Throw<ValueError>("TransformerConfig: expected at most 2^60 parameters, got about {:.2g}",
                          CountParameters<double>(*this));
    }
}

}  // namespace infini_train::nn
