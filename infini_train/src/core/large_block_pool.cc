#include "infini_train/src/core/large_block_pool.h"

#include <algorithm>
#include <sys/mman.h>

#include "infini_train/src/core/system_memory.h"

namespace infini_train {
namespace {

constexpr size_t kGranule = size_t{64} << 10;  // a multiple of every page size in use
constexpr size_t kHugePage = size_t{2} << 20;
// What is kept beyond twice the most that was ever in use (plus this) goes back to the system, least recently used
// first: changing shapes would otherwise pile up blocks that fit nothing any more.
constexpr size_t kSlack = size_t{256} << 20;

constexpr size_t RoundUp(size_t bytes, size_t multiple) {
    return (bytes + multiple - 1) / multiple * multiple;
}

void *MapPages(size_t bytes) {
    const size_t padding = bytes >= kHugePage ? kHugePage : 0;
    void *mapped = mmap(nullptr, bytes + padding, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
        return nullptr;
    }
    if (padding == 0) {
        return mapped;
    }
    char *const begin = static_cast<char *>(mapped);
    const size_t head = RoundUp(reinterpret_cast<uintptr_t>(begin), kHugePage) - reinterpret_cast<uintptr_t>(begin);
    if (head > 0) {
        munmap(begin, head);
    }
    if (padding > head) {
        munmap(begin + head + bytes, padding - head);
    }
    madvise(begin + head, bytes, MADV_HUGEPAGE);  // only a hint: without it the pages are small
    return begin + head;
}

}  // namespace

LargeBlockPool::Block LargeBlockPool::Allocate(size_t bytes) {
    bytes = RoundUp(bytes, kGranule);
    const std::lock_guard<std::mutex> lock(mutex_);
    Block block = TakeCached(bytes);
    if (block.data == nullptr) {
        block = Map(bytes);
    }
    if (block.data != nullptr) {
        used_bytes_ += block.bytes;
        most_used_bytes_ = std::max(most_used_bytes_, used_bytes_);
    }
    return block;
}

LargeBlockPool::Block LargeBlockPool::TakeCached(size_t bytes) {
    const auto found = free_.lower_bound({bytes, 0});
    if (found == free_.end() || (found->first.first - bytes) > found->first.first / 4) {
        return {};
    }
    const Block block{found->second, found->first.first};
    auto &slot = used_[block.data];
    slot = free_.extract(found);
    free_bytes_ -= block.bytes;
    return block;
}

LargeBlockPool::Block LargeBlockPool::Map(size_t bytes) {
    const size_t most_used = std::max(most_used_bytes_, used_bytes_ + bytes);
    while (!free_.empty() && used_bytes_ + free_bytes_ + bytes > 2 * most_used + kSlack) {
        ReleaseOldest();
    }
    // An overcommitting system would hand out more than it has and kill the process later.
    if (used_bytes_ + free_bytes_ + bytes > MemoryLimit()) {
        return {};
    }
    // The node comes first: once the pages are there nothing may fail any more.
    const auto made = free_.emplace(Key{bytes, --next_order_}, nullptr).first;
    void *const data = MapPages(bytes);
    if (data == nullptr) {
        free_.erase(made);
        return {};
    }
    made->second = data;
    used_[data] = free_.extract(made);
    return {data, bytes};
}

size_t LargeBlockPool::Deallocate(void *data) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = used_.find(data);
    if (found == used_.end()) {
        return 0;
    }
    FreeBlocks::node_type node = std::move(found->second);
    used_.erase(found);
    const size_t bytes = node.key().first;
    node.key().second = --next_order_;
    free_.insert(std::move(node));
    used_bytes_ -= bytes;
    free_bytes_ += bytes;
    return bytes;
}

void LargeBlockPool::ReleaseCached() {
    const std::lock_guard<std::mutex> lock(mutex_);
    while (!free_.empty()) {
        Release(free_.begin());
    }
}

void LargeBlockPool::ReleaseOldest() {
    Release(std::max_element(free_.begin(), free_.end(),
                             [](const auto &a, const auto &b) { return a.first.second < b.first.second; }));
}

void LargeBlockPool::Release(FreeBlocks::iterator block) {
    munmap(block->second, block->first.first);
    free_bytes_ -= block->first.first;
    free_.erase(block);
}

size_t LargeBlockPool::ReservedBytes() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return used_bytes_ + free_bytes_;
}

}  // namespace infini_train
