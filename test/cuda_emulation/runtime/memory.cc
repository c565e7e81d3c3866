#include "test/cuda_emulation/runtime/memory.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <sys/mman.h>

#include "test/cuda_emulation/checker/checker.h"
#include "test/cuda_emulation/runtime/options.h"
#include "test/cuda_emulation/runtime/report.h"

namespace cuda_emulation {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kAlignment = 256;

struct Allocation {
    char *pages;
    size_t page_bytes;
    size_t bytes;
};

std::map<const char *, Allocation> live;  // by address
std::map<const char *, size_t> pinned;
int scopes = 0;
bool is_open = false;  // to the host
int closings = 0;

constexpr size_t kDeviceBytes = kArenaBytes / kNumDevices;

struct Device {
    size_t used = 0;  // of its part of the arena
    size_t live_bytes = 0;
    std::map<size_t, std::deque<char *>> freed;  // pages by size, the oldest first
} devices[kNumDevices];

size_t RoundUp(size_t bytes, size_t to) {
    return (bytes + to - 1) / to * to;
}

void Protect(int protection) {
    for (const auto &[data, allocation] : live) {
        mprotect(allocation.pages, allocation.page_bytes, protection);
    }
}

template <typename Map>
auto Find(Map &map, const void *address) {
    auto found = map.upper_bound(static_cast<const char *>(address));
    return found == map.begin() ? map.end() : --found;
}

// Pages that were never used, with one before them that stays out of reach; else those that were freed longest ago.
char *TakePages(int index, size_t bytes) {
    Device &device = devices[index];
    if (device.used + bytes + kPage < kDeviceBytes) {
        char *const pages = Arena() + static_cast<size_t>(index) * kDeviceBytes + device.used + kPage;
        device.used += bytes + kPage;
        return pages;
    }
    const auto found = device.freed.find(bytes);
    if (found == device.freed.end() || found->second.empty()) {
        return nullptr;
    }
    char *const pages = found->second.front();
    found->second.pop_front();
    return pages;
}

}  // namespace

char *Arena() {
    static char *const arena = [] {
        void *const memory = mmap(nullptr, kArenaBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) {
            std::abort();
        }
        return static_cast<char *>(memory);
    }();
    return arena;
}

bool IsDevice(const void *address) {
    return static_cast<uintptr_t>(static_cast<const char *>(address) - Arena()) < kArenaBytes;
}

int DeviceOf(const void *address) {
    return static_cast<int>(static_cast<size_t>(static_cast<const char *>(address) - Arena()) / kDeviceBytes);
}

bool IsAllocated(const void *address, size_t bytes) {
    const auto found = Find(live, address);
    return found != live.end() && static_cast<const char *>(address) + bytes <= found->first + found->second.bytes;
}

bool IsPinned(const void *address) {
    const auto found = Find(pinned, address);
    return found != pinned.end() && static_cast<const char *>(address) < found->first + found->second;
}

cudaError_t AllocateDevice(int device, void **data, size_t bytes) {
    *data = nullptr;
    const size_t page_bytes = RoundUp(std::max<size_t>(bytes, 1), kPage);
    if (bytes > kDeviceBytes || devices[device].live_bytes + page_bytes > CurrentOptions().memory_bytes) {
        return cudaErrorMemoryAllocation;
    }
    char *const pages = TakePages(device, page_bytes);
    if (pages == nullptr) {
        return cudaErrorMemoryAllocation;
    }
    mprotect(pages, page_bytes, PROT_READ | PROT_WRITE);
    std::memset(pages, 0xFF, page_bytes);
    if (!is_open) {
        mprotect(pages, page_bytes, PROT_NONE);
    }
    char *const begin = pages + page_bytes - RoundUp(std::max<size_t>(bytes, 1), kAlignment);
    live[begin] = {pages, page_bytes, bytes};
    devices[device].live_bytes += page_bytes;
    checker::OnAllocate(begin, bytes);
    *data = begin;
    return cudaSuccess;
}

cudaError_t FreeDevice(void *data) {
    const auto found = live.find(static_cast<const char *>(data));
    if (found == live.end()) {
        AddReport(Defect::kWrongFree, __builtin_return_address(0), "cudaFree of what isn't allocated");
        return cudaErrorInvalidValue;
    }
    const Allocation allocation = found->second;
    live.erase(found);
    checker::OnFree(data, allocation.bytes);
    madvise(allocation.pages, allocation.page_bytes, MADV_DONTNEED);
    mprotect(allocation.pages, allocation.page_bytes, PROT_NONE);
    Device &device = devices[DeviceOf(data)];
    device.freed[allocation.page_bytes].push_back(allocation.pages);
    device.live_bytes -= allocation.page_bytes;
    return cudaSuccess;
}

void DeviceMemoryInfo(int device, size_t *free, size_t *total) {
    *total = CurrentOptions().memory_bytes;
    *free = *total - devices[device].live_bytes;
}

cudaError_t AllocatePinned(void **data, size_t bytes) {
    *data = std::aligned_alloc(kPage, RoundUp(std::max<size_t>(bytes, 1), kPage));
    if (*data == nullptr) {
        return cudaErrorMemoryAllocation;
    }
    pinned[static_cast<const char *>(*data)] = bytes;
    return cudaSuccess;
}

cudaError_t FreePinned(void *data) {
    if (pinned.erase(static_cast<const char *>(data)) == 0) {
        AddReport(Defect::kWrongFree, __builtin_return_address(0), "cudaFreeHost of what isn't allocated");
        return cudaErrorInvalidValue;
    }
    std::free(data);
    return cudaSuccess;
}

DeviceScope::DeviceScope() {
    if (scopes++ == 0 && !is_open) {
        Protect(PROT_READ | PROT_WRITE);
        is_open = true;
    }
}

DeviceScope::~DeviceScope() {
    if (--scopes == 0 && ++closings % CurrentOptions().guard_every == 0) {
        Protect(PROT_NONE);
        is_open = false;
    }
}

bool OpenForHost(const void *address) {
    const auto found = Find(live, address);
    if (found == live.end()) {
        return false;
    }
    const Allocation &allocation = found->second;
    const bool inside = static_cast<const char *>(address) < allocation.pages + allocation.page_bytes;
    return inside && mprotect(allocation.pages, allocation.page_bytes, PROT_READ | PROT_WRITE) == 0;
}

}  // namespace cuda_emulation
