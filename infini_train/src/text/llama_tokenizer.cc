#include "infini_train/include/text/llama_tokenizer.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "infini_train/include/common/error.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/text/added_matcher.h"
#include "infini_train/src/text/merge_table.h"
#include "infini_train/src/text/tokenizer_file.h"
#include "infini_train/src/text/utf8.h"
#include "infini_train/src/text/vocabulary.h"
#include "infini_train/src/text/word_encoder.h"

// The format: https://github.com/karpathy/llama2.c, tokenizer.py and run.c

namespace infini_train::text {
namespace {

constexpr TokenId kFirstByte = 3;
constexpr TokenId kFirstPiece = kFirstByte + 256;
constexpr int32_t kMaxPiece = 256;  // Real ones have at most some dozens; all their cuts are tried.
constexpr const char *kSpecialNames[] = {"<unk>", "<s>", "</s>"};

bool IsBytePiece(std::string_view piece, int byte) {
    return piece == fmt::format("<0x{:02X}>", byte);
}

// The place of the first space behind another character, which begins a word; npos if there is none.
size_t NextWord(std::string_view text, size_t from) {
    for (size_t i = std::max<size_t>(from, 1); i < text.size(); ++i) {
        if (text[i] == ' ' && text[i - 1] != ' ') {
            return i;
        }
    }
    return std::string_view::npos;
}

template <typename T>
T ReadNumber(TokenizerFile *file, const char *what) {
    T value{};
    file->ReadExactly(reinterpret_cast<char *>(&value), sizeof(value), what);
    return value;
}

template <typename T>
void AppendNumber(T value, std::string *to) {
    to->append(reinterpret_cast<const char *>(&value), sizeof(value));
}

}  // namespace

struct LlamaTokenizer::Impl {
    void ReadPieces(TokenizerFile *file, int64_t vocab_size);
    void Finish(const std::string &path);

    // The bytes that a token stands for, special ones aside.
    std::string_view BytesOf(TokenId id) const {
        return id < kFirstPiece ? std::string_view(&bytes[id - kFirstByte], 1) : pieces[id];
    }
    std::optional<TokenId> FindPiece(std::string_view piece) const {
        const auto id = pieces.Find(piece);
        return id.has_value() && *id < kFirstPiece ? std::nullopt : id;
    }

    void EncodeWord(std::string_view word, std::vector<TokenId> *ids) const;
    void EncodePlain(std::string_view text, WordCache *cache, IdWriter *writer) const;

    Vocabulary pieces;  // As the file has them.
    std::vector<float> scores;
    MergeTable merges;
    char bytes[256] = {};
    bool words_are_apart = true;  // No piece has a space behind another character.
    AddedMatcher special;
    mutable WordCaches caches;
};

void LlamaTokenizer::Impl::ReadPieces(TokenizerFile *file, int64_t vocab_size) {
    const auto longest = ReadNumber<int32_t>(file, "the longest length");
    if (longest <= 0 || longest > kMaxPiece) {
        FailToRead(file->path(), fmt::format("a longest length of 1 to {}", kMaxPiece), std::to_string(longest));
    }
    pieces.Reserve(file->size());
    uint64_t position = sizeof(longest);
    int32_t seen_longest = 0;
    std::string piece;
    while (position < file->size()) {
        const int64_t id = pieces.size();
        const std::string what = fmt::format("token {}", id);
        const auto score = ReadNumber<float>(file, what.c_str());
        const auto length = ReadNumber<int32_t>(file, what.c_str());
        if (!std::isfinite(score) || length <= 0 || length > longest) {
            FailToRead(file->path(), fmt::format("a finite score and a length of 1 to {} for {}", longest, what),
                       fmt::format("score {} and length {}", score, length));
        }
        piece.resize(static_cast<size_t>(length));
        file->ReadExactly(piece.data(), piece.size(), what.c_str());
        position += sizeof(score) + sizeof(length) + piece.size();
        if (const char *problem = pieces.Add(piece, id)) {
            FailToRead(file->path(), "each token once", fmt::format("{}: {}, number {}", problem, Quote(piece), id));
        }
        scores.push_back(score);
        seen_longest = std::max(seen_longest, length);
    }
    if (vocab_size > 0 && pieces.size() != vocab_size) {
        FailToRead(file->path(), fmt::format("{} tokens", vocab_size), std::to_string(pieces.size()));
    }
    if (seen_longest != longest) {
        FailToRead(file->path(), fmt::format("a token of {} bytes, the longest", longest),
                   fmt::format("only up to {}", seen_longest));
    }
    for (int byte = 0; byte < 256; ++byte) {
        if (!pieces.Has(kFirstByte + byte) || !IsBytePiece(pieces[kFirstByte + byte], byte)) {
            FailToRead(file->path(), fmt::format("<0x{:02X}> as token {}", byte, kFirstByte + byte), "another or none");
        }
    }
}

void LlamaTokenizer::Impl::Finish(const std::string &path) {
    for (int byte = 0; byte < 256; ++byte) {
        bytes[byte] = static_cast<char>(byte);
    }
    for (TokenId id = 0; id < kFirstByte; ++id) {
        special.Add(kSpecialNames[id], id);
    }
    // A rank for each different score, the best first.
    std::vector<float> ranked(scores.begin() + kFirstPiece, scores.end());
    std::sort(ranked.begin(), ranked.end(), std::greater<>());
    ranked.erase(std::unique(ranked.begin(), ranked.end()), ranked.end());
    for (TokenId id = kFirstPiece; id < pieces.size(); ++id) {
        const std::string_view piece = pieces[id];
        words_are_apart = words_are_apart && NextWord(piece, 0) == std::string_view::npos;
        const auto rank = std::lower_bound(ranked.begin(), ranked.end(), scores[id], std::greater<>()) - ranked.begin();
        for (size_t cut = 1; cut < piece.size(); ++cut) {
            const auto left = FindPiece(piece.substr(0, cut));
            const auto right = left.has_value() ? FindPiece(piece.substr(cut)) : std::nullopt;
            if (merges.merges().size() > static_cast<size_t>(kMaxVocabSize)) {
                FailToRead(path, fmt::format("at most {} pairs of tokens that make another", kMaxVocabSize), "more");
            }
            if (right.has_value()) {
                merges.Add({*left, *right, id, static_cast<uint32_t>(rank)});
            }
        }
    }
}

void LlamaTokenizer::Impl::EncodeWord(std::string_view word, std::vector<TokenId> *ids) const {
    const char *const end = word.data() + word.size();
    for (const char *at = word.data(); at < end;) {
        const size_t length = std::max<size_t>(DecodeUtf8(at, end).length, 1);
        if (const auto id = FindPiece({at, length})) {
            ids->push_back(*id);
        } else {
            for (size_t i = 0; i < length; ++i) {
                ids->push_back(kFirstByte + static_cast<unsigned char>(at[i]));
            }
        }
        at += length;
    }
    merges.Apply(ids);
}

void LlamaTokenizer::Impl::EncodePlain(std::string_view text, WordCache *cache, IdWriter *writer) const {
    if (text.empty()) {
        return;
    }
    size_t at = words_are_apart ? std::min(NextWord(text, 1), text.size()) : text.size();
    std::string first = " ";
    first += text.substr(0, at);
    cache->Write(first.data(), first.size(), first.data() + first.size(), writer,
                 [&](std::vector<TokenId> *ids) { EncodeWord(first, ids); });
    while (at < text.size()) {
        const size_t next = std::min(NextWord(text, at + 1), text.size());
        const std::string_view word = text.substr(at, next - at);
        cache->Write(word.data(), word.size(), text.data() + text.size(), writer,
                     [&](std::vector<TokenId> *ids) { EncodeWord(word, ids); });
        at = next;
    }
}

std::unique_ptr<LlamaTokenizer> LlamaTokenizer::FromFile(const std::string &path, int64_t vocab_size) {
    TokenizerFile file(path);
    auto impl = std::make_unique<Impl>();
    impl->ReadPieces(&file, vocab_size);
    impl->Finish(path);
    return std::unique_ptr<LlamaTokenizer>(new LlamaTokenizer(std::move(impl)));
}

LlamaTokenizer::LlamaTokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

LlamaTokenizer::~LlamaTokenizer() = default;

int64_t LlamaTokenizer::vocab_size() const {
    return impl_->pieces.size();
}

void LlamaTokenizer::EncodeTo(std::string_view text, std::vector<TokenId> *ids, SpecialText special) const {
    IdWriter writer(ids, text.size() / 4 + 16);
    impl_->caches.With([&](WordCache &cache) {
        const auto use_text = [&](std::string_view part) { impl_->EncodePlain(part, &cache, &writer); };
        if (special == SpecialText::kRecognise) {
            impl_->special.ForEachPart(text, use_text, [&](TokenId id) { writer.Add(id); });
        } else {
            use_text(text);
        }
    });
    writer.Commit();
}

bool LlamaTokenizer::AppendToken(TokenId id, bool at_start, std::string *bytes) const {
    if (id < 0 || id >= vocab_size()) {
        Throw<IndexError>("LlamaTokenizer: there is no token {}; ids are below {}", id, vocab_size());
    }
    if (id < kFirstByte) {
        return true;
    }
    std::string_view piece = impl_->BytesOf(id);
    if (at_start && id >= kFirstPiece && piece.starts_with(' ')) {
        piece.remove_prefix(1);
    }
    *bytes += piece;
    return false;
}

std::optional<TokenId> LlamaTokenizer::FindToken(std::string_view bytes) const {
    for (TokenId id = 0; id < kFirstByte; ++id) {
        if (bytes == kSpecialNames[id]) {
            return id;
        }
    }
    const auto id = impl_->FindPiece(bytes);
    if (!id.has_value() && bytes.size() == 1) {
        return kFirstByte + static_cast<unsigned char>(bytes[0]);
    }
    return id;
}

std::map<std::string, TokenId> LlamaTokenizer::SpecialTokens() const {
    return {{kSpecialNames[kUnknown], kUnknown}, {kSpecialNames[kBegin], kBegin}, {kSpecialNames[kEnd], kEnd}};
}

void LlamaTokenizer::Save(const std::string &path) const {
    std::string content;
    int32_t longest = 0;
    for (TokenId id = 0; id < vocab_size(); ++id) {
        longest = std::max(longest, static_cast<int32_t>(impl_->pieces[id].size()));
    }
    AppendNumber(longest, &content);
    for (TokenId id = 0; id < vocab_size(); ++id) {
        AppendNumber(impl_->scores[id], &content);
        AppendNumber(static_cast<int32_t>(impl_->pieces[id].size()), &content);
        content += impl_->pieces[id];
    }
    WriteTokenizerFile(path, content);
}

}  // namespace infini_train::text
