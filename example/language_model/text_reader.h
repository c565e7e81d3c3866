#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "infini_train/include/nn/modules/transformer/transformer.h"
#include "infini_train/include/text/tokenizer.h"

namespace infini_train::example {

/// While one lives, a model is in evaluation mode; then each module is in the one that it was in.
class EvaluationGuard {
public:
    explicit EvaluationGuard(nn::Module &model);
    ~EvaluationGuard();
    EvaluationGuard(const EvaluationGuard &) = delete;
    EvaluationGuard &operator=(const EvaluationGuard &) = delete;

private:
    std::vector<std::pair<std::shared_ptr<nn::Module>, bool>> modes_;
};

/// What Generate and BeamSearch are given in the same way.
struct TextRequest {
    const char *caller;  ///< for errors
    std::span<const text::TokenId> prompt;
    int64_t max_new_tokens;
    double repetition_penalty;
    std::span<const text::TokenId> stop;
    int64_t kept;
};

/// Reads texts of equal length as they grow, with what it has read in a cache.
class TextReader {
public:
    /// Throws ValueError for what is out of its range.
    TextReader(nn::Transformer &model, const TextRequest &request);

    /// Scores of the token that comes after each of `texts`, which are those of the last call with tokens added:
    /// logits, one text after the other. Throws ValueError for some that aren't numbers.
    std::vector<double> Read(const std::vector<std::vector<text::TokenId>> &texts);

    /// Text i is what text rows[i] was.
    void Reorder(const std::vector<int64_t> &rows);

    bool IsStop(text::TokenId id) const;
    int64_t vocab_size() const { return model_.config().vocab_size; }

private:
    nn::Transformer &model_;
    const EvaluationGuard evaluation_;
    const TextRequest request_;
    nn::KeyValueCache cache_;
    int64_t forgotten_ = 0;  // tokens of each text in front of those in the cache
};

}  // namespace infini_train::example
