#pragma once

#include <cstdint>
#include <vector>

#include "infini_train/include/text/tokenizer.h"

namespace infini_train::text {

struct Merge {
    TokenId left;
    TokenId right;
    TokenId result;
    uint32_t rank;  // Lower is done earlier; several merges may have the same.
};

/// The merges of a byte-pair encoding.
class MergeTable {
public:
    /// False, without a change, if the pair is there already.
    bool Add(const Merge &merge);

    /// The merges as they were added.
    const std::vector<Merge> &merges() const { return merges_; }

    /// The merge of a pair, or nullptr.
    const Merge *Find(TokenId left, TokenId right) const;

    /// Does the merge of the lowest rank, the leftmost of equals, until there is none. The result replaces `symbols`.
    void Apply(std::vector<TokenId> *symbols) const;

private:
    size_t Place(TokenId left, TokenId right) const;
    void ApplyShort(std::vector<TokenId> *symbols) const;
    void ApplyLong(std::vector<TokenId> *symbols) const;

    std::vector<Merge> merges_;
    std::vector<uint32_t> index_;  // Open addressing into merges_.
};

}  // namespace infini_train::text
