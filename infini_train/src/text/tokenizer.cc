#include "infini_train/include/text/tokenizer.h"

#include <algorithm>
#include <filesystem>

#include "infini_train/include/common/error.h"
#include "infini_train/include/text/bpe_tokenizer.h"
#include "infini_train/include/text/char_tokenizer.h"
#include "infini_train/include/text/llama_tokenizer.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/text/json_reader.h"
#include "infini_train/src/text/tokenizer_file.h"
#include "infini_train/src/text/utf8.h"

namespace infini_train::text {
namespace {

constexpr char kReplacement[] = "\xEF\xBF\xBD";  // U+FFFD

// How many of the bytes at `at` begin a sequence that more bytes could complete, if none is complete.
size_t UnfinishedBytes(const char *at, const char *end) {
    const auto size = static_cast<size_t>(end - at);
    for (size_t length = std::min<size_t>(size, 3); length > 0; --length) {
        // The smallest and the largest continuation: if both fail, or the next bytes are there and fail, all do.
        for (const char filler : {'\x80', '\x90', '\xBF'}) {
            std::string attempt(at, length);
            attempt.resize(4, filler);
            if (DecodeUtf8(attempt.data(), attempt.data() + 4).length > length) {
                return length;
            }
        }
    }
    return 0;
}

// What a JSON file holds, by its first key and the value behind it.
class Probe : public JsonHandler {
public:
    bool Key(std::string &name) override {
        key = name;
        return true;
    }
    bool Scalar(Json value) override {
        is_number = value.is_number();
        return false;
    }
    bool Begin(bool is_object) override {
        const bool is_root = depth_++ == 0;
        return is_root && is_object;
    }
    bool End() override { return false; }

    std::string key;
    bool is_number = false;

private:
    int depth_ = 0;
};

std::string Beside(const std::string &path, const char *name) {
    return (std::filesystem::path(path).parent_path() / name).string();
}

// The other half of GPT-2's pair of files.
std::string Partner(const std::string &path, const char *name, const char *other_name) {
    for (const char *candidate : {name, other_name}) {
        const std::string partner = Beside(path, candidate);
        if (std::filesystem::exists(partner)) {
            return partner;
        }
    }
    FailToRead(path, fmt::format("{} or {} beside it", name, other_name), "neither");
}

std::unique_ptr<Tokenizer> LoadFolder(const std::string &path) {
    for (const char *name : {"tokenizer.json", "encoder.json", "vocab.json", "tokenizer.bin"}) {
        const std::string file = (std::filesystem::path(path) / name).string();
        if (std::filesystem::exists(file)) {
            return LoadTokenizer(file);
        }
    }
    FailToRead(path, "tokenizer.json, encoder.json, vocab.json or tokenizer.bin in this folder", "none of them");
}

}  // namespace

std::vector<TokenId> Tokenizer::Encode(std::string_view text, SpecialText special) const {
    std::vector<TokenId> ids;
    EncodeTo(text, &ids, special);
    return ids;
}

std::string Tokenizer::Decode(std::span<const TokenId> ids) const {
    std::string bytes;
    bool at_start = true;
    for (size_t i = 0; i < ids.size(); ++i) {
        try {
            at_start = AppendToken(ids[i], at_start, &bytes);
        } catch (IndexError &error) {
            error.AddContext(fmt::format("at position {} of {}", i, ids.size()));
            throw;
        }
    }
    return bytes;
}

std::string StreamDecoder::Push(TokenId id) {
    at_start_ = tokenizer_.AppendToken(id, at_start_, &pending_);
    const char *const end = pending_.data() + pending_.size();
    std::string text;
    const char *at = pending_.data();
    while (at < end) {
        const char *const valid = EndOfValid(at, end);
        text.append(at, valid);
        at = valid;
        if (at < end) {
            const size_t unfinished = UnfinishedBytes(at, end);
            if (unfinished == static_cast<size_t>(end - at)) {
                break;
            }
            text += kReplacement;
            at += std::max<size_t>(unfinished, 1);
        }
    }
    pending_.erase(0, static_cast<size_t>(at - pending_.data()));
    return text;
}

std::string StreamDecoder::Finish() {
    at_start_ = true;
    const bool is_unfinished = !pending_.empty();
    pending_.clear();
    return is_unfinished ? kReplacement : "";
}

std::unique_ptr<Tokenizer> LoadTokenizer(const std::string &path) {
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) {
        return LoadFolder(path);
    }
    char start[8] = {};
    const size_t size = TokenizerFile(path).Read(start, sizeof(start));
    const std::string_view first(start, size);
    if (first.starts_with("#version")) {
        return BpeTokenizer::FromGpt2Files(Partner(path, "encoder.json", "vocab.json"), path);
    }
    const size_t brace = first.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
    const bool is_binary = first.find('\0') != std::string_view::npos;  // A tokenizer.bin may begin with 123, a brace.
    if (is_binary || brace == std::string_view::npos || first[brace] != '{') {
        return LlamaTokenizer::FromFile(path);
    }
    Probe probe;
    ReadJson(path, &probe);
    if (probe.is_number) {
        return BpeTokenizer::FromGpt2Files(path, Partner(path, "vocab.bpe", "merges.txt"));
    }
    if (probe.key == "format") {
        return CharTokenizer::FromFile(path);
    }
    return BpeTokenizer::FromTokenizerJson(path);
}

}  // namespace infini_train::text
