#pragma once

#include <memory>

#include "infini_train/include/text/tokenizer.h"

namespace infini_train::text {

/// LLaMA's tokenizer from llama2.c's tokenizer.bin: SentencePiece's BPE. A space goes in front of the text; each
/// character starts as its piece, or as its bytes' tokens where it has none; then the two neighbours whose joint piece
/// has the best score are merged, the leftmost of equals, until none is left. Ids 0 to 2 are `<unk>`, `<s>` and `</s>`,
/// 3 to 258 the bytes.
///
/// Decoding leaves the special tokens out and takes the space in front away again.
class INFINI_TRAIN_EXPORT LlamaTokenizer : public Tokenizer {
public:
    static constexpr TokenId kUnknown = 0;
    static constexpr TokenId kBegin = 1;  ///< Begins a text; also what llama2.c's models put between texts.
    static constexpr TokenId kEnd = 2;

    /// Reads a tokenizer.bin: the length of the longest piece (int32), then for each token its score (float32), length
    /// (int32) and bytes. The file doesn't say how many there are; the model does: give it as `vocab_size`, and a file
    /// that is cut between two tokens is noticed (0: as many as come). Throws IoError as LoadTokenizer does.
    static std::unique_ptr<LlamaTokenizer> FromFile(const std::string &path, int64_t vocab_size = 0);

    ~LlamaTokenizer() override;

    std::string type() const override { return "llama"; }
    int64_t vocab_size() const override;
    void EncodeTo(std::string_view text, std::vector<TokenId> *ids,
                  SpecialText special = SpecialText::kOrdinary) const override;
    bool AppendToken(TokenId id, bool at_start, std::string *bytes) const override;
    std::optional<TokenId> FindToken(std::string_view bytes) const override;
    /// `<unk>`, `<s>` and `</s>`.
    std::map<std::string, TokenId> SpecialTokens() const override;

    /// Writes a tokenizer.bin.
    void Save(const std::string &path) const override;

private:
    struct Impl;
    explicit LlamaTokenizer(std::unique_ptr<Impl> impl);

    std::unique_ptr<Impl> impl_;
};

}  // namespace infini_train::text
