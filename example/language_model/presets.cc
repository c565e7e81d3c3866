#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

#include "example/language_model/model_files.h"

namespace infini_train::example {
namespace {

// The published depths and their heads, of 64 each.
struct Published {
    const char *name;
    int64_t depth;
    int64_t heads;
};
constexpr std::array<Published, 4> kPublished{
    {{"gpt2", 12, 12}, {"gpt2-medium", 24, 16}, {"gpt2-large", 36, 20}, {"gpt2-xl", 48, 25}}};
constexpr int64_t kHeadSize = 64;
constexpr int64_t kLeastDepth = 2;

int64_t HeadsOf(int64_t depth) {
    if (depth <= kPublished[0].depth) {
        return depth;
    }
    const auto *next = std::find_if(kPublished.begin(), kPublished.end(),
                                    [&](const Published &published) { return published.depth >= depth; });
    const auto *last = next - 1;
    return last->heads + (next->heads - last->heads) * (depth - last->depth) / (next->depth - last->depth);
}

std::optional<int64_t> DepthOf(const std::string &name) {
    for (const Published &published : kPublished) {
        if (name == published.name) {
            return published.depth;
        }
    }
    int64_t depth = 0;
    const char *end = name.data() + name.size();
    if (name.size() < 2 || name[0] != 'd' || name[1] == '0') {
        return std::nullopt;
    }
    const auto [stop, error] = std::from_chars(name.data() + 1, end, depth);
    if (error != std::errc() || stop != end || depth < kLeastDepth || depth > kPublished.back().depth) {
        return std::nullopt;
    }
    return depth;
}

}  // namespace

std::optional<nn::TransformerConfig> Gpt2Preset(const std::string &name) {
    const auto depth = DepthOf(name);
    if (!depth) {
        return std::nullopt;
    }
    nn::TransformerConfig config;
    config.layers = *depth;
    config.heads = HeadsOf(*depth);
    config.width = kHeadSize * config.heads;
    return config;
}

std::optional<nn::TransformerConfig> LlamaPreset(const std::string &name) {
    struct Size {
        const char *name;
        int64_t vocab_size, context, layers, heads, kv_heads, width, hidden;
        bool tied;
    };
    constexpr Size kSizes[] = {
        {"stories260k", 512, 512, 5, 8, 4, 64, 172, true},
        {"stories15m", 32000, 256, 6, 6, 6, 288, 768, true},
        {"stories42m", 32000, 1024, 8, 8, 8, 512, 1376, true},
        {"stories110m", 32000, 1024, 12, 12, 12, 768, 2048, true},
        {"llama-7b", 32000, 2048, 32, 32, 32, 4096, 11008, false},
    };
    for (const Size &size : kSizes) {
        if (name == size.name) {
            auto config =
                nn::TransformerConfig::Llama(size.vocab_size, size.context, size.layers, size.heads, size.width);
            config.kv_heads = size.kv_heads;
            config.hidden = size.hidden;
            config.tied = size.tied;
            return config;
        }
    }
    return std::nullopt;
}

}  // namespace infini_train::example
