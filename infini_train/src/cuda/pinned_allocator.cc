#include "infini_train/src/cuda/pinned_allocator.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

#include "infini_train/include/common/error.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/cuda/device_scope.h"
#include "infini_train/src/cuda/error.h"

namespace infini_train::cuda {

void *PinnedAllocator::Allocate(size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ProcessPending(false);
    if (bytes > size_t{1} << 47) {
        Throw<OutOfMemoryError>("PinnedAllocator: expected at most 2^47 bytes, got {}", bytes);
    }
    const size_t rounded = std::bit_ceil(std::max<size_t>(bytes, 512));
    void *data = nullptr;
    if (std::vector<void *> &kept = kept_[rounded]; !kept.empty()) {
        data = kept.back();
        kept.pop_back();
    } else {
        const cudaError_t error = cudaHostAlloc(&data, rounded, cudaHostAllocPortable);
        if (error == cudaErrorMemoryAllocation) {
            (void)cudaGetLastError();
            Throw<OutOfMemoryError>("PinnedAllocator: no {} bytes of page-locked memory; {} bytes are live, {} kept",
                                    rounded, stats_.live, stats_.reserved - stats_.live);
        }
        CheckCuda(error, "cudaHostAlloc");
        stats_.reserved += rounded;
    }
    used_[data] = Block{rounded, {}, 0};
    ++stats_.allocations;
    stats_.live += rounded;
    stats_.peak = std::max(stats_.peak, stats_.live);
    return data;
}

void PinnedAllocator::Deallocate(void *data, size_t /*bytes*/) noexcept {
    if (data == nullptr) {
        return;
    }
    try {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = used_.find(data);
        if (found == used_.end()) {
            return;
        }
        stats_.live -= found->second.bytes;
        if (found->second.streams.empty()) {
            kept_[found->second.bytes].push_back(data);
            used_.erase(found);
        } else {
            RecordPending(data, &found->second);
        }
    } catch (...) {
        // The device has failed; its next call says so.
    }
}

void PinnedAllocator::RecordPending(void *data, Block *block) {
    const auto streams = std::exchange(block->streams, {});
    for (const auto &[device, stream] : streams) {
        const DeviceScope scope(device);
        cudaEvent_t event = nullptr;
        CheckCuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
        CheckCuda(cudaEventRecord(event, stream), "cudaEventRecord");
        ++block->pending_events;
        pending_.push_back({event, data});
    }
}

void PinnedAllocator::ProcessPending(bool wait) {
    std::deque<Pending> left;
    for (const Pending &pending : std::exchange(pending_, {})) {
        const cudaError_t error = wait ? cudaEventSynchronize(pending.event) : cudaEventQuery(pending.event);
        if (error == cudaErrorNotReady) {
            (void)cudaGetLastError();
            left.push_back(pending);
            continue;
        }
        CheckCuda(cudaEventDestroy(pending.event), "cudaEventDestroy");
        const auto block = used_.find(pending.data);
        if (--block->second.pending_events == 0) {
            kept_[block->second.bytes].push_back(pending.data);
            used_.erase(block);
        }
    }
    pending_ = std::move(left);
}

PinnedAllocator::Blocks::iterator PinnedAllocator::Find(const void *address) {
    auto block = used_.upper_bound(address);
    if (block == used_.begin()) {
        return used_.end();
    }
    --block;
    const auto *const begin = static_cast<const char *>(block->first);
    return static_cast<const char *>(address) < begin + block->second.bytes ? block : used_.end();
}

bool PinnedAllocator::Contains(const void *address) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto *const self = const_cast<PinnedAllocator *>(this);
    return self->Find(address) != used_.end();
}

void PinnedAllocator::RecordUse(const void *address, cudaStream_t stream) {
    const int device = CurrentDeviceIndex();
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const auto block = Find(address); block != used_.end()) {
        block->second.streams.insert({device, stream});
    }
}

MemoryStats PinnedAllocator::Stats() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return stats_;
}

void PinnedAllocator::ResetPeak() {
    const std::lock_guard<std::mutex> lock(mutex_);
    stats_.peak = stats_.live;
}

void PinnedAllocator::RestorePeak(size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    stats_.peak = std::max(stats_.peak, bytes);
}

void PinnedAllocator::ReleaseCached() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ProcessPending(true);
    for (auto &[bytes, blocks] : kept_) {
        while (!blocks.empty()) {
            CheckCuda(cudaFreeHost(blocks.back()), "cudaFreeHost");
            blocks.pop_back();
            stats_.reserved -= bytes;
        }
    }
}

}  // namespace infini_train::cuda
