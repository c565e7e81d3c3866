#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "infini_train/include/common/export.h"

/// Text to token ids and back.
namespace infini_train::text {

/// The number of a token, from 0 on.
using TokenId = int32_t;

/// What the text of a special token, such as `<|endoftext|>`, means where it stands in a text that is encoded.
enum class SpecialText {
    kOrdinary,   ///< It is text like any other: the choice for text that others wrote.
    kRecognise,  ///< It becomes that token.
};

/// Turns text into token ids and back. A text is any sequence of bytes, meant as UTF-8; bytes that aren't UTF-8 survive
/// the way there and back, too. All const members may be called from several threads at once.
class INFINI_TRAIN_EXPORT Tokenizer {
public:
    Tokenizer() = default;
    virtual ~Tokenizer() = default;
    Tokenizer(const Tokenizer &) = delete;
    Tokenizer &operator=(const Tokenizer &) = delete;

    /// What kind it is: "bpe", "char" or "llama".
    virtual std::string type() const = 0;

    /// Ids are below it: as many rows as an embedding needs.
    virtual int64_t vocab_size() const = 0;

    /// Appends the ids of `text` to `ids`. Nothing is added in front or behind. Throws ValueError for text that the
    /// vocabulary can't express, which leaves `ids` as it was.
    virtual void EncodeTo(std::string_view text, std::vector<TokenId> *ids,
                          SpecialText special = SpecialText::kOrdinary) const = 0;

    /// The ids of `text`.
    std::vector<TokenId> Encode(std::string_view text, SpecialText special = SpecialText::kOrdinary) const;

    /// Appends the bytes that `id` stands for and returns whether it is a special token. `at_start` says that it is the
    /// first of a text or follows a special one. Throws IndexError if there is no such token.
    virtual bool AppendToken(TokenId id, bool at_start, std::string *bytes) const = 0;

    /// The text of `ids`: what was encoded, byte for byte. It may end, or begin, within a UTF-8 sequence. Throws
    /// IndexError, naming the position, if there is no such token.
    std::string Decode(std::span<const TokenId> ids) const;

    /// The token that stands for exactly these bytes, special ones included.
    virtual std::optional<TokenId> FindToken(std::string_view bytes) const = 0;

    /// The special tokens: text to id.
    virtual std::map<std::string, TokenId> SpecialTokens() const = 0;

    /// Writes a file that LoadTokenizer reads. It appears under its name when it is complete. Throws IoError with the
    /// system's reason.
    virtual void Save(const std::string &path) const = 0;
};

/// Decodes ids one by one into text that can be shown at once: Push returns whole UTF-8 sequences only and keeps an
/// unfinished one until the next id. Bytes that can't become UTF-8 show as U+FFFD.
class INFINI_TRAIN_EXPORT StreamDecoder {
public:
    /// `tokenizer` must outlive it.
    explicit StreamDecoder(const Tokenizer &tokenizer) : tokenizer_(tokenizer) {}

    /// The text that `id` completes. Throws IndexError if there is no such token.
    std::string Push(TokenId id);

    /// What is left at the end of the ids: "" or, for an unfinished sequence, U+FFFD. A new text may begin after it.
    std::string Finish();

private:
    const Tokenizer &tokenizer_;
    std::string pending_;
    bool at_start_ = true;
};

/// Reads a tokenizer and recognises its kind by what is in the file:
///   - Hugging Face's tokenizer.json with a byte-level BPE model,
///   - GPT-2's encoder.json or vocab.bpe (also named vocab.json and merges.txt), whose other half lies beside it,
///   - llama2.c's tokenizer.bin,
///   - what Save wrote,
///   - a folder that holds one of these under its usual name.
/// Throws IoError, with the path, what was expected and what was found, for a file that can't be read, is cut, names a
/// token or a merge twice or is malformed in another way; NotImplementedError for parts of a tokenizer.json that would
/// change the result and aren't supported. Memory stays below the size of the files plus 64 MiB.
INFINI_TRAIN_EXPORT std::unique_ptr<Tokenizer> LoadTokenizer(const std::string &path);

}  // namespace infini_train::text
