#pragma once

#include <span>
#include <vector>

#include "infini_train/include/core/generator.h"
#include "infini_train/include/text/tokenizer.h"

#include "example/language_model/generate.h"

namespace infini_train::example {

/// Divides the scores of all tokens in `text` by `penalty`, or multiplies them with it where they are negative. Each
/// token counts once. Ids are below scores.size().
void PenalizeRepetition(std::span<const text::TokenId> text, double penalty, std::span<double> scores);

/// Throws ValueError, naming `caller`, unless each score is a number or minus infinity (a token that can't come) and
/// at least one is a number.
void CheckScores(const char *caller, std::span<const double> scores);

/// The next token from logits that CheckScores lets pass, by temperature, top_k and top_p. Takes one number of
/// `generator` unless it is greedy. The logits aren't sorted, but
/// for the best top_k of them, and those that are about as likely as the last one of top-p.
text::TokenId ChooseToken(std::span<const double> logits, const SamplingOptions &options, Generator &generator);

}  // namespace infini_train::example
