#pragma once

#include <memory>

#include "infini_train/include/text/tokenizer.h"

namespace infini_train::text {

struct BpeModel;

/// Byte-level byte-pair encoding, as GPT-2 does it: a pattern splits the text into words, each word starts as its
/// bytes, and the pair of neighbours that was learned first is merged until none is left (Sennrich, Haddow, Birch,
/// https://arxiv.org/abs/1508.07909; Radford et al., "Language Models are Unsupervised Multitask Learners"). Bytes that
/// aren't UTF-8 are words of their own.
class INFINI_TRAIN_EXPORT BpeTokenizer : public Tokenizer {
public:
    /// GPT-2's own files. The one token that no merge makes, `<|endoftext|>`, is special. Throws IoError as
    /// LoadTokenizer does, also for two files that don't belong together.
    static std::unique_ptr<BpeTokenizer> FromGpt2Files(const std::string &encoder_json, const std::string &vocab_bpe);

    /// Hugging Face's format: a BPE model whose pre-tokenizer is ByteLevel, alone or behind Split and Digits. The
    /// post-processor, truncation and padding are not applied. Throws as LoadTokenizer does.
    static std::unique_ptr<BpeTokenizer> FromTokenizerJson(const std::string &path);

    /// What the functions above and BpeTrainer call.
    explicit BpeTokenizer(std::unique_ptr<BpeModel> model);
    ~BpeTokenizer() override;

    std::string type() const override { return "bpe"; }
    int64_t vocab_size() const override;
    void EncodeTo(std::string_view text, std::vector<TokenId> *ids,
                  SpecialText special = SpecialText::kOrdinary) const override;
    bool AppendToken(TokenId id, bool at_start, std::string *bytes) const override;
    std::optional<TokenId> FindToken(std::string_view bytes) const override;
    std::map<std::string, TokenId> SpecialTokens() const override;

    /// Writes Hugging Face's format.
    void Save(const std::string &path) const override;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace infini_train::text
