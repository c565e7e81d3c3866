#include "infini_train/src/cuda/caching_allocator.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "infini_train/include/common/error.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/cuda/current.h"
#include "infini_train/src/cuda/device_scope.h"
#include "infini_train/src/cuda/error.h"

namespace infini_train::cuda {
namespace {

constexpr size_t kRounding = 512;
constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kSmallBytes = kMiB;
constexpr size_t kSmallSegment = 2 * kMiB;
constexpr size_t kMediumBytes = 10 * kMiB;
constexpr size_t kMediumSegment = 20 * kMiB;
constexpr size_t kLargeRounding = 2 * kMiB;
constexpr size_t kAbsurdBytes = size_t{1} << 47;

size_t RoundUp(size_t bytes, size_t to) {
    return (bytes + to - 1) / to * to;
}

size_t SegmentBytes(size_t bytes) {
    return bytes <= kSmallBytes    ? kSmallSegment
           : bytes <= kMediumBytes ? kMediumSegment
                                   : RoundUp(bytes, kLargeRounding);
}

// What is left of a block is worth a block of its own.
bool IsWorthSplitting(size_t left, bool is_small) {
    return left >= (is_small ? kRounding : kSmallBytes + 1);
}

bool IsCapturing(cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    CheckCuda(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
    return status != cudaStreamCaptureStatusNone;
}

bool Caches() {
    const char *value = std::getenv("INFINI_TRAIN_CUDA_CACHE");
    return value == nullptr || std::strcmp(value, "0") != 0;
}

std::string FormatBytes(size_t bytes) {
    if (bytes < kMiB) {
        return fmt::format("{} bytes", bytes);
    }
    const double mib = static_cast<double>(bytes) / static_cast<double>(kMiB);
    return mib < 1024 ? fmt::format("{:.1f} MiB", mib) : fmt::format("{:.2f} GiB", mib / 1024);
}

}  // namespace

CachingAllocator::CachingAllocator(int device) : device_(device), caches_(Caches()) {}

void *CachingAllocator::Allocate(size_t bytes) {
    const DeviceScope scope(device_);
    const cudaStream_t stream = CurrentStreamOf(device_);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (bytes > kAbsurdBytes) {
        ThrowOutOfMemory(bytes);
    }
    const size_t rounded = RoundUp(std::max<size_t>(bytes, 1), kRounding);
    const bool is_small = rounded <= kSmallBytes;
    if (!pending_.empty() && !IsCapturing(stream)) {
        ProcessPending(false);
    }
    // Without caching, with its own exact bounds.
    Block *block =
        caches_ ? TakeKept(rounded, stream, is_small) : NewSegment(std::max<size_t>(bytes, 1), stream, false);
    if (block == nullptr && caches_) {
        block = NewSegment(SegmentBytes(rounded), stream, is_small);
        if (block == nullptr) {
            ReleaseSegments();
            // Blocks whose other streams are done now may fit.
            block = TakeKept(rounded, stream, is_small);
        }
        if (block == nullptr) {
            block = NewSegment(SegmentBytes(rounded), stream, is_small);
        }
        if (block == nullptr) {
            // A segment of exactly what is needed may still fit.
            block = NewSegment(RoundUp(rounded, kLargeRounding), stream, is_small);
        }
    }
    if (block == nullptr) {
        ThrowOutOfMemory(bytes);
    }
    if (caches_ && IsWorthSplitting(block->bytes - rounded, is_small)) {
        Split(block, rounded);
    }
    block->is_free = false;
    ++stats_.allocations;
    stats_.live += block->bytes;
    stats_.peak = std::max(stats_.peak, stats_.live);
    return block->data;
}

CachingAllocator::Block *CachingAllocator::TakeKept(size_t bytes, cudaStream_t stream, bool is_small) {
    Pool &pool = PoolOf(stream, is_small);
    const auto found = pool.lower_bound(bytes);
    if (found == pool.end()) {
        return nullptr;
    }
    Block *const block = *found;
    // A block far too large is better kept for what needs it, unless it can be cut.
    pool.erase(found);
    return block;
}

CachingAllocator::Block *CachingAllocator::NewSegment(size_t bytes, cudaStream_t stream, bool is_small) {
    void *data = nullptr;
    const cudaError_t error = cudaMalloc(&data, bytes);
    if (error == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        return nullptr;
    }
    CheckCuda(error, "cudaMalloc");
    auto block = std::make_unique<Block>();
    block->data = static_cast<char *>(data);
    block->bytes = bytes;
    block->stream = stream;
    block->is_small = is_small;
    stats_.reserved += bytes;
    return (blocks_[data] = std::move(block)).get();
}

void CachingAllocator::Split(Block *block, size_t bytes) {
    auto rest = std::make_unique<Block>();
    rest->data = block->data + bytes;
    rest->bytes = block->bytes - bytes;
    rest->stream = block->stream;
    rest->is_small = block->is_small;
    rest->is_free = true;
    rest->previous = block;
    rest->next = block->next;
    if (rest->next != nullptr) {
        rest->next->previous = rest.get();
    }
    block->next = rest.get();
    block->bytes = bytes;
    PoolOf(rest->stream, rest->is_small).insert(rest.get());
    void *const key = rest->data;
    blocks_[key] = std::move(rest);
}

void CachingAllocator::Deallocate(void *data, size_t /*bytes*/) noexcept {
    if (data == nullptr) {
        return;
    }
    try {
        const DeviceScope scope(device_);
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = blocks_.find(data);
        if (found == blocks_.end()) {
            return;
        }
        Block *const block = found->second.get();
        stats_.live -= block->bytes;
        if (block->other_streams.empty()) {
            GiveBack(block);
        } else {
            RecordPending(block);
        }
    } catch (...) {
        // The device has failed or, at the process's end, gone; its next call says so.
    }
}

void CachingAllocator::GiveBack(Block *block) {
    if (!caches_ && !graph_streams_.contains(block->stream)) {
        stats_.reserved -= block->bytes;
        void *const data = block->data;
        blocks_.erase(data);
        CheckCuda(cudaFree(data), "cudaFree");
        return;
    }
    Pool &pool = PoolOf(block->stream, block->is_small);
    if (block->next != nullptr && block->next->is_free) {
        pool.erase(block->next);
        Join(block, block->next);
    }
    if (block->previous != nullptr && block->previous->is_free) {
        Block *const previous = block->previous;
        pool.erase(previous);
        Join(previous, block);
        block = previous;
    }
    block->is_free = true;
    pool.insert(block);
}

// `block` takes over the neighbour behind it.
void CachingAllocator::Join(Block *block, Block *neighbour) {
    block->bytes += neighbour->bytes;
    block->next = neighbour->next;
    if (block->next != nullptr) {
        block->next->previous = block;
    }
    blocks_.erase(neighbour->data);
}

void CachingAllocator::RecordUse(void *data, cudaStream_t stream) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = blocks_.find(data);
    if (found != blocks_.end() && found->second->stream != stream) {
        found->second->other_streams.insert(stream);
    }
}

void CachingAllocator::KeepFor(cudaStream_t stream) {
    const std::lock_guard<std::mutex> lock(mutex_);
    graph_streams_.insert(stream);
}

void CachingAllocator::Inherit(cudaStream_t stream) {
    const std::lock_guard<std::mutex> lock(mutex_);
    graph_streams_.erase(stream);
    for (auto &[data, block] : blocks_) {
        if (block->stream == stream) {
            block->stream = nullptr;
        }
        block->other_streams.erase(stream);
    }
    for (const bool is_small : {false, true}) {
        PoolOf(nullptr, is_small).merge(PoolOf(stream, is_small));
        pools_.erase({stream, is_small});
    }
    if (!caches_) {
        ReleaseSegments();
    }
}

void CachingAllocator::RecordPending(Block *block) {
    const std::set<cudaStream_t> streams = std::exchange(block->other_streams, {});
    for (const cudaStream_t stream : streams) {
        cudaEvent_t event = nullptr;
        if (free_events_.empty()) {
            CheckCuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
        } else {
            event = free_events_.back();
            free_events_.pop_back();
        }
        CheckCuda(cudaEventRecord(event, stream), "cudaEventRecord");
        ++block->pending_events;
        pending_.push_back({event, block});
    }
}

void CachingAllocator::ProcessPending(bool wait) {
    std::deque<Pending> left;
    while (!pending_.empty()) {
        const Pending pending = pending_.front();
        pending_.pop_front();
        const cudaError_t error = wait ? cudaEventSynchronize(pending.event) : cudaEventQuery(pending.event);
        if (error == cudaErrorNotReady) {
            (void)cudaGetLastError();
            left.push_back(pending);
            continue;
        }
        free_events_.push_back(pending.event);
        if (--pending.block->pending_events == 0) {
            GiveBack(pending.block);
        }
    }
    pending_ = std::move(left);
}

void CachingAllocator::ReleaseSegments() {
    ProcessPending(true);
    for (auto &[key, pool] : pools_) {
        if (graph_streams_.contains(key.first)) {
            continue;
        }
        for (auto it = pool.begin(); it != pool.end();) {
            Block *const block = *it;
            if (block->previous != nullptr || block->next != nullptr) {
                ++it;  // a part of its segment is in use
                continue;
            }
            it = pool.erase(it);
            stats_.reserved -= block->bytes;
            void *const data = block->data;
            blocks_.erase(data);
            CheckCuda(cudaFree(data), "cudaFree");  // waits for the device
        }
    }
}

void CachingAllocator::ThrowOutOfMemory(size_t bytes) {
    size_t free = 0, total = 0;
    CheckCuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    size_t largest = 0;
    for (const auto &[key, pool] : pools_) {
        largest = pool.empty() ? largest : std::max(largest, (*pool.rbegin())->bytes);
    }
    const size_t kept = stats_.reserved - std::min(stats_.reserved, stats_.live);
    const char *const hint =
        kept > bytes ? "enough is kept, but in pieces: it helps to use fewer sizes, or to call ReleaseCached() of the "
                       "device's allocator before the large request"
        : free + stats_.reserved + kMiB * 512 < total && free + stats_.reserved < total / 2
            ? "another process holds much of the device"
            : "smaller batches, checkpoints (nn::Checkpoint) or 16-bit types need less";
    Throw<OutOfMemoryError>(
        "CUDA:{}: {} were asked for; {} are live, {} kept for reuse (the largest block {}), {} of {} free on the "
        "device; "
        "{}",
        device_, FormatBytes(bytes), FormatBytes(stats_.live), FormatBytes(kept), FormatBytes(largest),
        FormatBytes(free), FormatBytes(total), hint);
}

MemoryStats CachingAllocator::Stats() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return stats_;
}

void CachingAllocator::ResetPeak() {
    const std::lock_guard<std::mutex> lock(mutex_);
    stats_.peak = stats_.live;
}

void CachingAllocator::RestorePeak(size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    stats_.peak = std::max(stats_.peak, bytes);
}

void CachingAllocator::ReleaseCached() {
    const DeviceScope scope(device_);
    const std::lock_guard<std::mutex> lock(mutex_);
    ReleaseSegments();
}

}  // namespace infini_train::cuda
