#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace infini_train {

/// Large blocks straight from the system's pages, kept for reuse. A request takes the smallest kept block that is at
/// most a third larger (so at most a quarter is wasted), the most recently used first, or maps a new one. Blocks of
/// 2 MiB and more are aligned to 2 MiB and ask for huge pages. All methods may be called from any thread.
class LargeBlockPool {
public:
    struct Block {
        void *data = nullptr;
        size_t bytes = 0;
    };

    /// At least `bytes` of memory, or a null block if the system has none.
    Block Allocate(size_t bytes);
    /// Takes a block back and returns its size; 0 for an address that isn't one.
    size_t Deallocate(void *data) noexcept;
    /// Gives all kept blocks back to the system.
    void ReleaseCached();
    /// What is handed out and what is kept, together.
    size_t ReservedBytes() const;

private:
    /// Size, then the more recently freed first.
    using Key = std::pair<size_t, uint64_t>;
    using FreeBlocks = std::map<Key, void *>;

    Block TakeCached(size_t bytes);
    Block Map(size_t bytes);
    void ReleaseOldest();
    void Release(FreeBlocks::iterator block);

    mutable std::mutex mutex_;
    FreeBlocks free_;
    // A block in use keeps its node, so that giving it back needs no memory.
    std::unordered_map<void *, FreeBlocks::node_type> used_;
    size_t used_bytes_ = 0;
    size_t most_used_bytes_ = 0;
    size_t free_bytes_ = 0;
    uint64_t next_order_ = ~uint64_t{0};
};

}  // namespace infini_train
