#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>

#include <cuda_runtime_api.h>

#include "infini_train/include/core/allocator.h"

namespace infini_train::cuda {

/// The host's memory that the device copies from and to on its own. Locking pages is slow, so blocks, of a power of two
/// bytes, are kept. A block that was given back while a copy from or to it was queued is used again once that is done.
class PinnedAllocator : public Allocator {
public:
    void *Allocate(size_t bytes) override;
    void Deallocate(void *data, size_t bytes) noexcept override;
    MemoryStats Stats() const override;
    void ResetPeak() override;
    void ReleaseCached() override;
    void RestorePeak(size_t bytes) override;

    /// Whether `address` lies in a block that is handed out.
    bool Contains(const void *address) const;
    /// A copy from or to the block around `address` was queued on `stream`, of this thread's current device.
    void RecordUse(const void *address, cudaStream_t stream);

private:
    struct Block {
        size_t bytes = 0;
        std::set<std::pair<int, cudaStream_t>> streams;
        int pending_events = 0;
    };
    struct Pending {
        cudaEvent_t event;
        void *data;
    };
    using Blocks = std::map<const void *, Block>;

    // Called with the lock held.
    Blocks::iterator Find(const void *address);
    void ProcessPending(bool wait);
    void RecordPending(void *data, Block *block);

    mutable std::mutex mutex_;
    Blocks used_;
    std::map<size_t, std::vector<void *>> kept_;
    std::deque<Pending> pending_;
    MemoryStats stats_;
};

}  // namespace infini_train::cuda
