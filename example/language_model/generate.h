#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "infini_train/include/core/generator.h"
#include "infini_train/include/nn/modules/transformer/transformer.h"
#include "infini_train/include/text/tokenizer.h"

/// Text from a language model, token by token, each with the keys and values of those before it kept in a cache.
///
/// The models run in evaluation mode, without recording; the mode they were in is restored. When the model's context is
/// full, the oldest tokens are forgotten: the model reads the last `kept` ones (SamplingOptions, BeamOptions) again as
/// if they were a text of their own, and goes on from there. Until then the result is what running the model on the
/// whole text for each token would give.
namespace infini_train::example {

/// How the next token is chosen from the logits. In this order: repetition penalty, temperature, top-k, top-p.
struct SamplingOptions {
    double temperature = 1.0;  ///< divides the logits, >= 0; 0 is greedy: the most likely token, the first of several
    int64_t top_k = 0;         ///< only the k most likely tokens; 0: all
    double top_p = 1.0;        ///< only the most likely tokens that together reach this probability, in (0, 1]
    /// Logits of tokens that the text already has, prompt included, are divided by it, negative ones multiplied
    /// (Keskar et al., "CTRL", 2019, as Hugging Face does it). 1: none.
    double repetition_penalty = 1.0;
    std::vector<text::TokenId> stop = {};  ///< any of these ends the text, and isn't part of it
    int64_t kept = 0;  ///< tokens that stay when the context is full, below the context; 0: half of it
};

/// Continues `prompt` by up to `max_new_tokens` tokens and returns these. `on_token`, if any, is called for each new
/// token as soon as it is known, and ends the text by returning false. `generator` null: the default one; each token
/// takes one number of it unless it is greedy. A prompt that is longer than the context is cut to its last `kept`
/// tokens. Throws ValueError for an option outside its range, an empty prompt, ids outside the vocabulary, and
/// logits that aren't numbers.
std::vector<text::TokenId> Generate(nn::Transformer &model, std::span<const text::TokenId> prompt,
                                    int64_t max_new_tokens, const SamplingOptions &options = {},
                                    Generator *generator = nullptr,
                                    const std::function<bool(text::TokenId)> &on_token = {});

/// How BeamSearch ranks and ends.
struct BeamOptions {
    int64_t beams = 4;  ///< sequences that are followed at once
    /// A score is the sum of log-probabilities / (number of new tokens, a stop token included)^this.
    double length_penalty = 1.0;
    /// Ends as soon as `beams` sequences have ended with a stop token; otherwise only when no unfinished one can still
    /// beat the worst of these by its present length.
    bool early_stopping = false;
    double repetition_penalty = 1.0;  ///< as in SamplingOptions, on log-probabilities
    /// Any of these ends a sequence, and isn't part of it; its probability counts.
    std::vector<text::TokenId> stop = {};
    int64_t kept = 0;  ///< as in SamplingOptions
};

/// A continuation that BeamSearch found.
struct Beam {
    std::vector<text::TokenId> ids;  ///< the new tokens
    double score = 0;                ///< the higher the better; see BeamOptions::length_penalty
};

/// The continuations of `prompt` by up to `max_new_tokens` tokens that are most likely as a whole, as far as following
/// the best `options.beams` ones at each step finds them: at most that many, the best one first. Throws as Generate.
std::vector<Beam> BeamSearch(nn::Transformer &model, std::span<const text::TokenId> prompt, int64_t max_new_tokens,
                             const BeamOptions &options = {});

}  // namespace infini_train::example
