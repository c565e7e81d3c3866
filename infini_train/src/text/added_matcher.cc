#include "infini_train/src/text/added_matcher.h"

#include <algorithm>

namespace infini_train::text {

void AddedMatcher::Add(std::string_view text, TokenId id) {
    std::vector<Token> &tokens = by_first_byte_[static_cast<unsigned char>(text[0])];
    const auto place =
        std::find_if(tokens.begin(), tokens.end(), [&](const Token &token) { return token.text.size() < text.size(); });
    tokens.insert(place, {text, id});
    empty_ = false;
}

bool AddedMatcher::Find(std::string_view text, size_t from, Match *match) const {
    if (empty_) {
        return false;
    }
    for (size_t at = from; at < text.size(); ++at) {
        for (const Token &token : by_first_byte_[static_cast<unsigned char>(text[at])]) {
            if (text.substr(at).starts_with(token.text)) {
                *match = {at, at + token.text.size(), token.id};
                return true;
            }
        }
    }
    return false;
}

}  // namespace infini_train::text
