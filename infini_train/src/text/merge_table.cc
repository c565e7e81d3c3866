#include "infini_train/src/text/merge_table.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "infini_train/include/common/error.h"

#include "infini_train/src/common/format.h"

namespace infini_train::text {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

// Up to here a search through all pairs is faster than a queue.
constexpr size_t kShort = 64;

uint64_t Hash(TokenId left, TokenId right) {
    const uint64_t pair = static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
    return (pair * 0x9E3779B97F4A7C15U) >> 32;
}

}  // namespace

bool MergeTable::Add(const Merge &merge) {
    if ((merges_.size() + 1) * 2 > index_.size()) {
        index_.assign(std::max<size_t>(index_.size() * 2, 1024), kNone);
        for (uint32_t i = 0; i < merges_.size(); ++i) {
            index_[Place(merges_[i].left, merges_[i].right)] = i;
        }
    }
    const size_t place = Place(merge.left, merge.right);
    if (index_[place] != kNone) {
        return false;
    }
    index_[place] = static_cast<uint32_t>(merges_.size());
    merges_.push_back(merge);
    return true;
}

const Merge *MergeTable::Find(TokenId left, TokenId right) const {
    if (index_.empty()) {
        return nullptr;
    }
    const uint32_t i = index_[Place(left, right)];
    return i == kNone ? nullptr : &merges_[i];
}

size_t MergeTable::Place(TokenId left, TokenId right) const {
    const size_t mask = index_.size() - 1;
    size_t place = Hash(left, right) & mask;
    while (index_[place] != kNone && (merges_[index_[place]].left != left || merges_[index_[place]].right != right)) {
        place = (place + 1) & mask;
    }
    return place;
}

void MergeTable::Apply(std::vector<TokenId> *symbols) const {
    if (symbols->size() <= kShort) {
        ApplyShort(symbols);
    } else {
        ApplyLong(symbols);
    }
}

void MergeTable::ApplyShort(std::vector<TokenId> *symbols) const {
    const Merge *merges[kShort];  // Of symbol i and the one behind it.
    size_t size = symbols->size();
    TokenId *const ids = symbols->data();
    for (size_t i = 0; i + 1 < size; ++i) {
        merges[i] = Find(ids[i], ids[i + 1]);
    }
    while (true) {
        size_t best = size;
        uint32_t best_rank = kNone;
        for (size_t i = 0; i + 1 < size; ++i) {
            if (merges[i] != nullptr && (best == size || merges[i]->rank < best_rank)) {
                best = i;
                best_rank = merges[i]->rank;
            }
        }
        if (best == size) {
            break;
        }
        ids[best] = merges[best]->result;
        std::copy(ids + best + 2, ids + size, ids + best + 1);
        --size;
        if (best + 1 < size) {
            std::copy(merges + best + 2, merges + size, merges + best + 1);
            merges[best] = Find(ids[best], ids[best + 1]);
        }
        if (best > 0) {
            merges[best - 1] = Find(ids[best - 1], ids[best]);
        }
    }
    symbols->resize(size);
}

void MergeTable::ApplyLong(std::vector<TokenId> *symbols) const {
    if (symbols->size() >= kNone) {
        Throw<ValueError>("Tokenizer: expected words below {} characters, got one of {}", kNone, symbols->size());
    }
    struct Node {
        TokenId id;  // -1: merged into the one before.
        uint32_t previous;
        uint32_t next;
    };
    struct Candidate {
        uint32_t rank;
        uint32_t at;
        uint32_t merge;
        bool operator>(const Candidate &other) const { return std::tie(rank, at) > std::tie(other.rank, other.at); }
    };
    const auto size = static_cast<uint32_t>(symbols->size());
    std::vector<Node> nodes(size);
    std::vector<Candidate> candidates;
    const auto offer = [&](uint32_t at, auto &&add) {
        const Merge *merge = Find(nodes[at].id, nodes[nodes[at].next].id);
        if (merge != nullptr) {
            add(Candidate{merge->rank, at, static_cast<uint32_t>(merge - merges_.data())});
        }
    };
    for (uint32_t i = 0; i < size; ++i) {
        nodes[i] = {(*symbols)[i], i == 0 ? kNone : i - 1, i + 1 == size ? kNone : i + 1};
    }
    for (uint32_t i = 0; i + 1 < size; ++i) {
        offer(i, [&](const Candidate &candidate) { candidates.push_back(candidate); });
    }
    std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue({}, std::move(candidates));
    const auto push = [&](const Candidate &candidate) { queue.push(candidate); };
    while (!queue.empty()) {
        const auto [rank, at, which] = queue.top();
        queue.pop();
        const Merge &merge = merges_[which];
        Node &node = nodes[at];
        if (node.id != merge.left || node.next == kNone || nodes[node.next].id != merge.right) {
            continue;  // One of the two has become something else.
        }
        node.id = merge.result;
        nodes[node.next].id = -1;
        node.next = nodes[node.next].next;
        if (node.next != kNone) {
            nodes[node.next].previous = at;
            offer(at, push);
        }
        if (node.previous != kNone) {
            offer(node.previous, push);
        }
    }
    size_t kept = 0;
    for (const Node &node : nodes) {
        if (node.id >= 0) {
            (*symbols)[kept++] = node.id;
        }
    }
    symbols->resize(kept);
}

}  // namespace infini_train::text
