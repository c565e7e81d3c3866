#pragma once

#include <memory>

#include "infini_train/include/text/tokenizer.h"

namespace infini_train::text {

/// A token for each character (Unicode code point) that a text has, numbered in their order. A byte that isn't UTF-8
/// counts as a character. There are no special tokens.
class INFINI_TRAIN_EXPORT CharTokenizer : public Tokenizer {
public:
    /// Of the characters of `text`. Throws ValueError if there are none.
    static std::unique_ptr<CharTokenizer> FromText(std::string_view text);

    /// Reads what Save wrote. Throws IoError as LoadTokenizer does.
    static std::unique_ptr<CharTokenizer> FromFile(const std::string &path);

    /// Of these characters; their places are their ids. Throws ValueError if there are none, if one is not exactly one
    /// character, or is there twice.
    explicit CharTokenizer(std::vector<std::string> characters);
    ~CharTokenizer() override;

    std::string type() const override { return "char"; }
    int64_t vocab_size() const override { return static_cast<int64_t>(characters_.size()); }

    /// Throws ValueError, with the position, for a character that the vocabulary lacks.
    void EncodeTo(std::string_view text, std::vector<TokenId> *ids,
                  SpecialText special = SpecialText::kOrdinary) const override;
    bool AppendToken(TokenId id, bool at_start, std::string *bytes) const override;
    std::optional<TokenId> FindToken(std::string_view bytes) const override;
    std::map<std::string, TokenId> SpecialTokens() const override { return {}; }

    /// Writes JSON: `{"format": "infini_train.characters", "version": 1, "characters": ["\n", " ", ...]}`, where a byte
    /// that isn't UTF-8 is a number.
    void Save(const std::string &path) const override;

private:
    class Index;

    std::vector<std::string> characters_;
    std::unique_ptr<const Index> index_;
};

}  // namespace infini_train::text
