#include "example/language_model/generate.h"

#include <cmath>

#include <fmt/format.h>

#include "infini_train/include/common/error.h"

#include "example/language_model/sampler.h"
#include "example/language_model/text_reader.h"

namespace infini_train::example {
namespace {

constexpr char kCaller[] = "Generate";

void Check(const SamplingOptions &options) {
    if (!(options.temperature >= 0) || !std::isfinite(options.temperature)) {
        throw ValueError(fmt::format("{}: expected temperature >= 0, got {}", kCaller, options.temperature));
    }
    if (options.top_k < 0) {
        throw ValueError(fmt::format("{}: expected top_k >= 0, got {}", kCaller, options.top_k));
    }
    if (!(options.top_p > 0 && options.top_p <= 1)) {
        throw ValueError(fmt::format("{}: expected top_p above 0 and at most 1, got {}", kCaller, options.top_p));
    }
}

}  // namespace

std::vector<text::TokenId> Generate(nn::Transformer &model, std::span<const text::TokenId> prompt,
                                    int64_t max_new_tokens, const SamplingOptions &options, Generator *generator,
                                    const std::function<bool(text::TokenId)> &on_token) {
    Check(options);
    Generator &random = generator != nullptr ? *generator : DefaultGenerator();
    TextReader reader(model, {kCaller, prompt, max_new_tokens, options.repetition_penalty, options.stop, options.kept});
    std::vector<std::vector<text::TokenId>> texts{{prompt.begin(), prompt.end()}};
    auto &text = texts[0];
    for (int64_t i = 0; i < max_new_tokens; ++i) {
        std::vector<double> logits = reader.Read(texts);
        PenalizeRepetition(text, options.repetition_penalty, logits);
        const text::TokenId id = ChooseToken(logits, options, random);
        if (reader.IsStop(id)) {
            break;
        }
        text.push_back(id);
        if (on_token && !on_token(id)) {
            break;
        }
    }
    return {text.begin() + static_cast<std::ptrdiff_t>(prompt.size()), text.end()};
}

}  // namespace infini_train::example
