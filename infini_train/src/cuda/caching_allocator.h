#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include <cuda_runtime_api.h>

#include "infini_train/include/core/allocator.h"

namespace infini_train::cuda {

/// A device's memory. cudaMalloc and cudaFree wait for the device, so segments are kept, cut into blocks, and blocks
/// that were given back are used again, by the stream that they were allocated on: its order makes sure that the last
/// use is over. Requests up to 1 MiB share segments of 2 MiB, up to 10 MiB segments of 20 MiB, larger ones have their
/// own. Neighbours that are free are joined. Where the device has no more, what is kept goes back, and it is asked
/// again.
///
/// With INFINI_TRAIN_CUDA_CACHE=0 each block is cudaMalloc's own, for tools that check bounds.
class CachingAllocator : public Allocator {
public:
    explicit CachingAllocator(int device);

    void *Allocate(size_t bytes) override;
    void Deallocate(void *data, size_t bytes) noexcept override;
    MemoryStats Stats() const override;
    void ResetPeak() override;
    void ReleaseCached() override;
    void RestorePeak(size_t bytes) override;

    /// The block that begins at `data` is used on `stream`, too: given back, it waits for what is queued there by then.
    void RecordUse(void *data, cudaStream_t stream);

    /// A graph uses what is allocated on `stream` again and again: it stays the stream's, even if it was given back.
    void KeepFor(cudaStream_t stream);
    /// The device's default stream gets what `stream` has; all that used it is done.
    void Inherit(cudaStream_t stream);

private:
    struct Block {
        char *data = nullptr;
        size_t bytes = 0;
        cudaStream_t stream = nullptr;
        bool is_small = false;
        bool is_free = false;
        int pending_events = 0;
        Block *previous = nullptr;  // neighbours in the segment
        Block *next = nullptr;
        std::set<cudaStream_t> other_streams;
    };
    // The smallest first, and of one size the lowest.
    struct BySize {
        using is_transparent = void;
        bool operator()(const Block *a, const Block *b) const {
            return a->bytes != b->bytes ? a->bytes < b->bytes : a->data < b->data;
        }
        bool operator()(const Block *a, size_t bytes) const { return a->bytes < bytes; }
    };
    using Pool = std::set<Block *, BySize>;
    struct Pending {
        cudaEvent_t event;
        Block *block;
    };

    Pool &PoolOf(cudaStream_t stream, bool is_small) { return pools_[{stream, is_small}]; }
    // All of these are called with the lock held.
    Block *TakeKept(size_t bytes, cudaStream_t stream, bool is_small);
    Block *NewSegment(size_t bytes, cudaStream_t stream, bool is_small);
    void Split(Block *block, size_t bytes);
    void GiveBack(Block *block);
    void Join(Block *block, Block *neighbour);
    void RecordPending(Block *block);
    void ProcessPending(bool wait);
    void ReleaseSegments();
    [[noreturn]] void ThrowOutOfMemory(size_t bytes);

    const int device_;
    const bool caches_;
    mutable std::mutex mutex_;
    std::map<std::pair<cudaStream_t, bool>, Pool> pools_;
    std::unordered_map<void *, std::unique_ptr<Block>> blocks_;
    std::set<cudaStream_t> graph_streams_;
    std::deque<Pending> pending_;
    std::vector<cudaEvent_t> free_events_;
    MemoryStats stats_;
};

}  // namespace infini_train::cuda
