#include "infini_train/src/text/vocabulary.h"

#include <algorithm>
#include <functional>

namespace infini_train::text {

const char *Vocabulary::Add(std::string_view token, int64_t id) {
    if (id < 0 || id >= kMaxVocabSize) {
        return "an id that is out of range";
    }
    if (Has(id)) {
        return "an id that another token has";
    }
    if (bytes_.size() + token.size() >= kAbsent) {
        return "more text than a vocabulary can have";
    }
    if (static_cast<size_t>(count_ + 1) * 2 > index_.size()) {
        MakeIndex(std::max<size_t>(index_.size() * 2, 1024));
    }
    const size_t place = Place(token);
    if (index_[place] >= 0) {
        return "a token that is there twice";
    }
    if (id >= size()) {
        tokens_.resize(static_cast<size_t>(id) + 1);
    }
    tokens_[id] = {static_cast<uint32_t>(bytes_.size()), static_cast<uint32_t>(token.size())};
    bytes_ += token;
    index_[place] = static_cast<TokenId>(id);
    ++count_;
    return nullptr;
}

std::optional<TokenId> Vocabulary::Find(std::string_view token) const {
    if (index_.empty()) {
        return std::nullopt;
    }
    const TokenId id = index_[Place(token)];
    return id < 0 ? std::nullopt : std::optional<TokenId>(id);
}

// Where `token` is, or would be.
size_t Vocabulary::Place(std::string_view token) const {
    const size_t mask = index_.size() - 1;
    size_t place = std::hash<std::string_view>()(token) & mask;
    while (index_[place] >= 0 && (*this)[index_[place]] != token) {
        place = (place + 1) & mask;
    }
    return place;
}

void Vocabulary::MakeIndex(size_t slots) {
    index_.assign(slots, -1);
    for (TokenId id = 0; id < size(); ++id) {
        if (Has(id)) {
            index_[Place((*this)[id])] = id;
        }
    }
}

}  // namespace infini_train::text
