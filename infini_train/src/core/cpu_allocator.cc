#include "infini_train/src/core/cpu_allocator.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

#include "infini_train/include/common/error.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/core/large_block_pool.h"
#include "infini_train/src/core/system_memory.h"

#if !defined(__SANITIZE_ADDRESS__) && defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

namespace infini_train {
namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr bool kCaching = false;
#else
constexpr bool kCaching = true;
#endif

constexpr size_t kLargeBytes = size_t{1} << 20;
constexpr size_t kAbsurdBytes = size_t{1} << 47;  // more than a process can address

// Sizes below 1 MiB: multiples of 64 up to 512, then four to each doubling (at most a fifth is wasted).
struct SizeClass {
    uint32_t index;
    uint32_t bytes;
};
constexpr SizeClass ClassOf(size_t bytes) {
    if (bytes <= 512) {
        const auto index = static_cast<uint32_t>((bytes + (bytes == 0) - 1) / 64);
        return {index, (index + 1) * 64};
    }
    const auto last = static_cast<uint32_t>(bytes - 1);
    const int width = std::bit_width(last);
    const int shift = width - 3;
    const uint32_t quarter = last >> shift;  // 4 to 7
    return {static_cast<uint32_t>(width - 10) * 4 + quarter + 4, (quarter + 1) << shift};
}
constexpr uint32_t kNumClasses = ClassOf(kLargeBytes - 1).index + 1;
// Beyond 64 KiB a block's own work hides the lock of the common pool.
constexpr uint32_t kNumThreadClasses = ClassOf(size_t{64} << 10).index + 1;

// How many blocks of a class a thread keeps: 256 KiB, within limits.
constexpr auto kThreadLimits = [] {
    std::array<uint32_t, kNumThreadClasses> limits{};
    for (size_t bytes = 64; bytes <= (size_t{64} << 10); bytes += 64) {
        const SizeClass size_class = ClassOf(bytes);
        const uint32_t limit = (uint32_t{256} << 10) / size_class.bytes;
        limits[size_class.index] = limit > 128 ? 128 : limit;
    }
    return limits;
}();

struct FreeBlock {
    FreeBlock *next;
};
struct FreeList {
    FreeBlock *head = nullptr;
    uint32_t count = 0;

    void Push(void *data) {
        head = new (data) FreeBlock{head};
        ++count;
    }
    void *Pop() {
        FreeBlock *const block = head;
        head = block->next;
        --count;
        return block;
    }
};

struct alignas(64) CentralList {
    std::mutex mutex;
    FreeList blocks;
};

// All globals here are constant-initialised and trivially destroyed: tensors in static variables may use them at any
// time.
constinit std::array<CentralList, kNumClasses> central_lists{};

struct alignas(64) Counters {
    std::atomic<size_t> live{0};
    std::atomic<size_t> peak{0};
};
constinit Counters counters;
constinit std::atomic<size_t> small_reserved{0};  // bytes of small blocks, in use or kept anywhere

// A thread's own blocks and its share of the number of allocations; the list links all that are alive.
struct ThreadCache {
    enum class State : uint8_t { kNew, kActive, kGone };

    std::array<FreeList, kNumThreadClasses> lists{};
    std::atomic<uint64_t> allocations{0};
    State state = State::kNew;
    ThreadCache *next = nullptr;
    ThreadCache *previous = nullptr;
};
constinit thread_local ThreadCache thread_cache;
constinit std::mutex threads_mutex;
constinit ThreadCache *threads = nullptr;
constinit std::atomic<uint64_t> gone_allocations{0};  // of threads that have ended

void Flush(ThreadCache &cache) {
    for (uint32_t i = 0; i < kNumThreadClasses; ++i) {
        const std::lock_guard<std::mutex> lock(central_lists[i].mutex);
        while (cache.lists[i].count > 0) {
            central_lists[i].blocks.Push(cache.lists[i].Pop());
        }
    }
}

struct ThreadExit {
    ~ThreadExit() {
        ThreadCache &cache = thread_cache;
        Flush(cache);
        cache.state = ThreadCache::State::kGone;
        const std::lock_guard<std::mutex> lock(threads_mutex);
        gone_allocations.fetch_add(cache.allocations.load(std::memory_order_relaxed), std::memory_order_relaxed);
        (cache.previous != nullptr ? cache.previous->next : threads) = cache.next;
        if (cache.next != nullptr) {
            cache.next->previous = cache.previous;
        }
    }
};

// A new thread's cache becomes known, and is emptied when the thread ends.
void Activate(ThreadCache &cache) {
    cache.state = ThreadCache::State::kActive;
    {
        const std::lock_guard<std::mutex> lock(threads_mutex);
        cache.next = threads;
        if (threads != nullptr) {
            threads->previous = &cache;
        }
        threads = &cache;
    }
    static thread_local ThreadExit at_exit;
    static_cast<void>(at_exit);
}

void CountAllocation(ThreadCache &cache) {
    if (cache.state == ThreadCache::State::kNew) {
        Activate(cache);
    }
    if (cache.state == ThreadCache::State::kActive) {
        // Only this thread writes it.
        cache.allocations.store(cache.allocations.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    } else {
        gone_allocations.fetch_add(1, std::memory_order_relaxed);
    }
}

void RaisePeak(size_t live) {
    size_t peak = counters.peak.load(std::memory_order_relaxed);
    while (live > peak && !counters.peak.compare_exchange_weak(peak, live, std::memory_order_relaxed)) {
    }
}

void AddLive(size_t bytes) {
    RaisePeak(counters.live.fetch_add(bytes, std::memory_order_relaxed) + bytes);
}

void SubtractLive(size_t bytes) {
    counters.live.fetch_sub(bytes, std::memory_order_relaxed);
}

void *SystemAllocate(size_t bytes) {
    void *data = nullptr;
    if (small_reserved.load(std::memory_order_relaxed) + bytes > MemoryLimit() ||
        posix_memalign(&data, Allocator::kAlignment, bytes) != 0) {
        return nullptr;
    }
    small_reserved.fetch_add(bytes, std::memory_order_relaxed);
    return data;
}

void SystemFree(void *data, size_t bytes) {
    std::free(data);
    small_reserved.fetch_sub(bytes, std::memory_order_relaxed);
}

// A block from the common pool, along with up to half of what the thread may keep, or from the system; null if it has
// none.
void *AllocateFromCentral(ThreadCache &cache, SizeClass size_class) {
    {
        CentralList &central = central_lists[size_class.index];
        const std::lock_guard<std::mutex> lock(central.mutex);
        if (central.blocks.count > 0) {
            void *const data = central.blocks.Pop();
            if (size_class.index < kNumThreadClasses && cache.state == ThreadCache::State::kActive) {
                FreeList &list = cache.lists[size_class.index];
                const uint32_t wanted = kThreadLimits[size_class.index] / 2;
                while (list.count < wanted && central.blocks.count > 0) {
                    list.Push(central.blocks.Pop());
                }
            }
            return data;
        }
    }
    return SystemAllocate(size_class.bytes);
}

// Keeps a block for all threads, along with half of the thread's own where those are too many.
void DeallocateToCentral(ThreadCache &cache, SizeClass size_class, void *data) {
    CentralList &central = central_lists[size_class.index];
    const std::lock_guard<std::mutex> lock(central.mutex);
    central.blocks.Push(data);
    if (size_class.index < kNumThreadClasses) {
        FreeList &list = cache.lists[size_class.index];
        for (uint32_t surplus = list.count / 2; surplus > 0; --surplus) {
            central.blocks.Push(list.Pop());
        }
    }
}

class CachingAllocator : public Allocator {
public:
    void *Allocate(size_t bytes) override {
        if (!kCaching) {
            return AllocateUncached(bytes);
        }
        if (bytes >= kLargeBytes) {
            return AllocateLarge(bytes);
        }
        const SizeClass size_class = ClassOf(bytes);
        ThreadCache &cache = thread_cache;
        if (size_class.index < kNumThreadClasses && cache.lists[size_class.index].head != nullptr) [[likely]] {
            // A cache that holds something is active.
            cache.allocations.store(cache.allocations.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
            AddLive(size_class.bytes);
            return cache.lists[size_class.index].Pop();
        }
        return AllocateSmall(size_class, bytes);
    }

    void Deallocate(void *data, size_t bytes) noexcept override {
        if (data == nullptr) {
            return;
        }
        if (!kCaching) {
            SystemFree(data, bytes);
            SubtractLive(bytes);
            return;
        }
        if (bytes >= kLargeBytes) {
            SubtractLive(large_.Deallocate(data));
            return;
        }
        const SizeClass size_class = ClassOf(bytes);
        ThreadCache &cache = thread_cache;
        SubtractLive(size_class.bytes);
        if (size_class.index < kNumThreadClasses && cache.state == ThreadCache::State::kActive &&
            cache.lists[size_class.index].count < kThreadLimits[size_class.index]) [[likely]] {
            cache.lists[size_class.index].Push(data);
            return;
        }
        DeallocateToCentral(cache, size_class, data);
    }

    MemoryStats Stats() const override {
        MemoryStats stats;
        stats.live = counters.live.load(std::memory_order_relaxed);
        stats.peak = counters.peak.load(std::memory_order_relaxed);
        stats.reserved = small_reserved.load(std::memory_order_relaxed) + large_.ReservedBytes();
        const std::lock_guard<std::mutex> lock(threads_mutex);
        stats.allocations = gone_allocations.load(std::memory_order_relaxed);
        for (const ThreadCache *cache = threads; cache != nullptr; cache = cache->next) {
            stats.allocations += cache->allocations.load(std::memory_order_relaxed);
        }
        return stats;
    }

    void ResetPeak() override {
        counters.peak.store(0, std::memory_order_relaxed);
        RaisePeak(counters.live.load(std::memory_order_relaxed));
    }

    void RestorePeak(size_t bytes) override { RaisePeak(bytes); }

    // What other threads keep for themselves, a few hundred KiB a size at most, stays with them.
    void ReleaseCached() override {
        large_.ReleaseCached();
        Flush(thread_cache);
        for (uint32_t i = 0; i < kNumClasses; ++i) {
            FreeList blocks;
            {
                const std::lock_guard<std::mutex> lock(central_lists[i].mutex);
                blocks = std::exchange(central_lists[i].blocks, FreeList{});
            }
            while (blocks.count > 0) {
                SystemFree(blocks.Pop(), class_bytes_[i]);
            }
        }
    }

private:
    [[gnu::noinline]] void *AllocateSmall(SizeClass size_class, size_t bytes) {
        ThreadCache &cache = thread_cache;
        CountAllocation(cache);
        void *data = AllocateFromCentral(cache, size_class);
        if (data == nullptr) {
            ReleaseCached();
            data = SystemAllocate(size_class.bytes);
        }
        if (data == nullptr) {
            ThrowOutOfMemory(bytes);
        }
        AddLive(size_class.bytes);
        return data;
    }

    [[gnu::noinline]] void *AllocateLarge(size_t bytes) {
        CountAllocation(thread_cache);
        if (bytes >= kAbsurdBytes) {
            ThrowOutOfMemory(bytes);
        }
        LargeBlockPool::Block block = large_.Allocate(bytes);
        if (block.data == nullptr) {
            ReleaseCached();
            block = large_.Allocate(bytes);
        }
        if (block.data == nullptr) {
            ThrowOutOfMemory(bytes);
        }
        AddLive(block.bytes);
        return block.data;
    }

    void *AllocateUncached(size_t bytes) {
        CountAllocation(thread_cache);
        void *const data = bytes < kAbsurdBytes ? SystemAllocate(bytes) : nullptr;
        if (data == nullptr) {
            ThrowOutOfMemory(bytes);
        }
        AddLive(bytes);
        return data;
    }

    [[noreturn]] void ThrowOutOfMemory(size_t bytes) const {
        const MemoryStats stats = Stats();
        Throw<OutOfMemoryError>(
            "Allocate: expected {} bytes of CPU memory, got none: {} live, {} cached, {} free in the system", bytes,
            stats.live, stats.reserved - std::min(stats.live, stats.reserved), FreeMemory());
    }

    LargeBlockPool large_;
    std::array<uint32_t, kNumClasses> class_bytes_ = [] {
        std::array<uint32_t, kNumClasses> sizes{};
        for (size_t bytes = 64; bytes < kLargeBytes; bytes += 64) {
            sizes[ClassOf(bytes).index] = ClassOf(bytes).bytes;
        }
        return sizes;
    }();
};

}  // namespace

Allocator &CpuAllocator() {
    static Allocator &allocator = *new CachingAllocator;
    return allocator;
}

}  // namespace infini_train
