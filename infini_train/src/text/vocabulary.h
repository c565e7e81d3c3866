#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "infini_train/include/text/tokenizer.h"

namespace infini_train::text {

/// Ids are below it. Far above any vocabulary in use, and low enough that a file can't ask for much memory by one
/// number.
constexpr int64_t kMaxVocabSize = int64_t{1} << 20;

/// Tokens by id and by their bytes, in flat memory.
class Vocabulary {
public:
    /// Gets ready for as many bytes in all; memory that isn't needed isn't touched.
    void Reserve(uint64_t bytes) { bytes_.reserve(std::min<uint64_t>(bytes, kAbsent)); }

    /// Returns what is wrong with a new token, for an error message, or nullptr after adding it.
    const char *Add(std::string_view token, int64_t id);

    /// One more than the largest id.
    int64_t size() const { return static_cast<int64_t>(tokens_.size()); }
    /// How many ids have a token.
    int64_t count() const { return count_; }
    bool Has(int64_t id) const { return id >= 0 && id < size() && tokens_[id].length != kAbsent; }
    /// The bytes of a token that is there.
    std::string_view operator[](TokenId id) const { return {bytes_.data() + tokens_[id].begin, tokens_[id].length}; }
    std::optional<TokenId> Find(std::string_view token) const;

    /// Replaces each token by what `rewrite(id, token, char *to)` writes to `to`, which may be the token's own memory
    /// and is no longer than it. It returns the length, kRemove, or kRefuse; then RewriteAll ends and returns that id.
    static constexpr int64_t kRemove = -2;
    static constexpr int64_t kRefuse = -1;
    template <typename Rewrite>
    std::optional<TokenId> RewriteAll(Rewrite &&rewrite);

private:
    static constexpr uint32_t kAbsent = UINT32_MAX;
    struct Token {
        uint32_t begin = 0;
        uint32_t length = kAbsent;
    };

    size_t Place(std::string_view token) const;
    void MakeIndex(size_t slots);

    std::string bytes_;
    std::vector<Token> tokens_;   // By id.
    std::vector<TokenId> index_;  // Open addressing; -1 is free.
    int64_t count_ = 0;
};

template <typename Rewrite>
std::optional<TokenId> Vocabulary::RewriteAll(Rewrite &&rewrite) {
    for (TokenId id = 0; id < size(); ++id) {
        if (!Has(id)) {
            continue;
        }
        const int64_t length = rewrite(id, (*this)[id], bytes_.data() + tokens_[id].begin);
        if (length == kRefuse) {
            return id;
        }
        count_ -= length == kRemove ? 1 : 0;
        tokens_[id].length = length == kRemove ? kAbsent : static_cast<uint32_t>(length);
    }
    MakeIndex(index_.size());
    return std::nullopt;
}

}  // namespace infini_train::text
