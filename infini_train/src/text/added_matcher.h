#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "infini_train/include/text/tokenizer.h"

namespace infini_train::text {

/// Finds tokens in a text before it is split: the first place, and there the longest.
class AddedMatcher {
public:
    /// `text` must stay where it is.
    void Add(std::string_view text, TokenId id);

    struct Match {
        size_t begin;
        size_t end;
        TokenId id;
    };
    /// The first match at or behind `from`.
    bool Find(std::string_view text, size_t from, Match *match) const;

    /// Calls `use_text(std::string_view)` and `use_token(TokenId)` for the parts of `text` in their order.
    template <typename UseText, typename UseToken>
    void ForEachPart(std::string_view text, UseText &&use_text, UseToken &&use_token) const {
        size_t done = 0;
        for (Match match{}; Find(text, done, &match); done = match.end) {
            use_text(text.substr(done, match.begin - done));
            use_token(match.id);
        }
        use_text(text.substr(done));
    }

private:
    struct Token {
        std::string_view text;
        TokenId id;
    };
    std::array<std::vector<Token>, 256> by_first_byte_;  // Longer ones first.
    bool empty_ = true;
};

}  // namespace infini_train::text
