#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "infini_train/include/text/tokenizer.h"

namespace infini_train::text {

/// Appends ids to a vector, with room for words made ahead; what isn't committed is taken back.
class IdWriter {
public:
    IdWriter(std::vector<TokenId> *ids, size_t expected) : ids_(ids), begin_(ids->size()), used_(begin_) {
        ids_->resize(used_ + expected);
    }
    ~IdWriter() { ids_->resize(begin_); }
    IdWriter(const IdWriter &) = delete;
    IdWriter &operator=(const IdWriter &) = delete;

    void Commit() { begin_ = used_; }

    /// Room for `count` ids, of which Advance says how many were written.
    TokenId *Room(size_t count) {
        if (ids_->size() - used_ < count) {
            ids_->resize(std::max(ids_->size() + ids_->size() / 2, used_ + count));
        }
        return ids_->data() + used_;
    }
    void Advance(size_t count) { used_ += count; }

    void Add(TokenId id) {
        *Room(1) = id;
        ++used_;
    }

private:
    std::vector<TokenId> *ids_;
    size_t begin_;
    size_t used_;
};

/// The ids of short words that were met before: a table of fixed size, in which a newer word takes an older one's
/// place.
class WordCache {
public:
    WordCache() : entries_(kEntries) {}

    /// Writes the ids of a word; those of a new one come from `encode(std::vector<TokenId> *)`, which fills an empty
    /// vector. Bytes before `readable_end` may be read.
    template <typename Encode>
    void Write(const char *word, size_t bytes, const char *readable_end, IdWriter *writer, Encode &&encode) {
        if (bytes > kMaxBytes) {
            WriteSlowly(writer, encode);
            return;
        }
        const Key key = KeyOf(word, bytes, readable_end);
        Entry &entry = entries_[key.Hash() & (kEntries - 1)];
        if (!(entry.key == key)) {
            const std::vector<TokenId> &ids = WriteSlowly(writer, encode);
            if (ids.size() <= kMaxIds) {
                entry.key = key;
                entry.count = static_cast<uint32_t>(ids.size());
                std::copy(ids.begin(), ids.end(), entry.ids);
            }
            return;
        }
        std::memcpy(writer->Room(kMaxIds), entry.ids, sizeof(entry.ids));
        writer->Advance(entry.count);
    }

private:
    static constexpr size_t kEntries = size_t{1} << 15;  // Two MiB.
    static constexpr size_t kMaxBytes = 23;
    static constexpr size_t kMaxIds = 9;

    // The bytes, zeros, and in the last byte the length, which is never 0: an empty entry equals no key.
    struct Key {
        uint64_t parts[3] = {};

        bool operator==(const Key &other) const {
            return ((parts[0] ^ other.parts[0]) | (parts[1] ^ other.parts[1]) | (parts[2] ^ other.parts[2])) == 0;
        }
        size_t Hash() const {
            const uint64_t mixed =
                (parts[0] ^ (parts[1] * 0x9E3779B97F4A7C15U) ^ (parts[2] * 0xC2B2AE3D27D4EB4FU)) * 0xFF51AFD7ED558CCDU;
            return static_cast<size_t>(mixed >> 40);
        }
    };

    struct alignas(64) Entry {
        Key key;
        uint32_t count = 0;
        TokenId ids[kMaxIds] = {};
    };
    static_assert(sizeof(Entry) == 64);

    static Key KeyOf(const char *word, size_t bytes, const char *readable_end) {
        Key key;
        if (readable_end - word >= static_cast<int64_t>(sizeof(key)) && bytes <= 8) {
            std::memcpy(key.parts, word, 8);
            key.parts[0] &= ~uint64_t{0} >> (64 - 8 * bytes);
        } else {
            std::memcpy(key.parts, word, bytes);
        }
        key.parts[2] |= static_cast<uint64_t>(bytes) << 56;
        return key;
    }

    template <typename Encode>
    const std::vector<TokenId> &WriteSlowly(IdWriter *writer, Encode &&encode) {
        symbols_.clear();
        encode(&symbols_);
        std::copy(symbols_.begin(), symbols_.end(), writer->Room(symbols_.size()));
        writer->Advance(symbols_.size());
        return symbols_;
    }

    std::vector<Entry> entries_;
    std::vector<TokenId> symbols_;
};

/// Caches for as many threads as encode at a time.
class WordCaches {
public:
    /// Calls `use(WordCache &)` with one that nobody else has meanwhile.
    template <typename Use>
    void With(Use &&use) {
        std::unique_ptr<WordCache> cache = Take();
        use(*cache);
        const std::lock_guard lock(mutex_);
        free_.push_back(std::move(cache));
    }

private:
    std::unique_ptr<WordCache> Take() {
        {
            const std::lock_guard lock(mutex_);
            if (!free_.empty()) {
                std::unique_ptr<WordCache> cache = std::move(free_.back());
                free_.pop_back();
                return cache;
            }
        }
        return std::make_unique<WordCache>();
    }

    std::mutex mutex_;
    std::vector<std::unique_ptr<WordCache>> free_;
};

}  // namespace infini_train::text
