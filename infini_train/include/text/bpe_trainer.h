#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "infini_train/include/text/bpe_tokenizer.h"

namespace infini_train::text {

struct BpeTrainerOptions {
    /// How many tokens there shall be: 256 bytes, the special tokens, and one for each merge. Fewer come out if the
    /// text has no pair left that is frequent enough.
    int64_t vocab_size = 8192;
    /// A pair that is seen less often isn't merged.
    int64_t min_frequency = 2;
    /// Get the last ids, in this order, as GPT-2 has it.
    std::vector<std::string> special_tokens = {"<|endoftext|>"};
};

/// Learns a byte-level BPE vocabulary: the text is split by GPT-2's pattern, and the pair of neighbours that is most
/// frequent, of equals the one with the smaller ids, is merged again and again.
class INFINI_TRAIN_EXPORT BpeTrainer {
public:
    /// Throws ValueError if vocab_size is below 256 and the special tokens, or above 2^20, if min_frequency is below 1,
    /// or for a special token that is empty or there twice.
    explicit BpeTrainer(BpeTrainerOptions options = {});
    ~BpeTrainer();

    /// Counts the words of a text. May be called several times; each call begins a new word.
    void AddText(std::string_view text);

    /// Learns from what was added.
    std::unique_ptr<BpeTokenizer> Train() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace infini_train::text
