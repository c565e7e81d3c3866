#include "test/cuda_emulation/emulator/memory.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <new>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test/cuda_emulation/emulator/block.h"
#include "test/cuda_emulation/emulator/options.h"
#include "test/cuda_emulation/emulator/shadow.h"
#include "test/cuda_emulation/emulator/state.h"

namespace cuda_emulation {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kPerDevice = kArenaBytes / kNumDevices;

struct Allocation {
    size_t bytes, pages;
    int device;
};

// Says what a plain segmentation fault doesn't: that the address is a device's.
void OnSegmentationFault(int signal_number, siginfo_t *info, void * /*context*/) {
    if (IsDeviceMemory(info->si_addr)) {
        std::fprintf(stderr, "CUDA emulation: %s device memory at %p%s\n",
                     IsInKernel() ? "a kernel touches unallocated" : "the host touches", info->si_addr,
                     DescribeRunningThread().c_str());
    }
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

class Arena {
public:
    Arena() {
        void *const memory = mmap(nullptr, kArenaBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) {
            throw std::bad_alloc();
        }
        begin_ = static_cast<char *>(memory);
        static char signal_stack[64 * 1024];
        stack_t stack{};
        stack.ss_sp = signal_stack;
        stack.ss_size = sizeof(signal_stack);
        sigaltstack(&stack, nullptr);
        struct sigaction action {};
        action.sa_sigaction = OnSegmentationFault;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        sigaction(SIGSEGV, &action, nullptr);
    }

    const char *begin() const { return begin_; }
    size_t FreeBytes(int device) const { return GetOptions().device_bytes - used_[device]; }

    void *Allocate(int device, size_t bytes) {
        const size_t pages = (bytes + kPage - 1) / kPage * kPage;
        if (pages > FreeBytes(device)) {
            return nullptr;
        }
        char *const data = TakeAddress(device, pages);
        if (data == nullptr) {
            return nullptr;
        }
        used_[device] += pages;
        live_[data] = {bytes, pages, device};
        mprotect(data, pages, PROT_READ | PROT_WRITE);
        std::memset(data, 0xff, bytes);
        if (GetOptions().guards_memory && scopes_ == 0) {
            mprotect(data, pages, PROT_NONE);
        }
        ShadowAllocate(data, bytes);
        return data;
    }

    bool Free(void *data) {
        const auto found = live_.find(static_cast<char *>(data));
        if (found == live_.end()) {
            return false;
        }
        const Allocation allocation = found->second;
        ShadowFree(data, allocation.bytes);
        madvise(data, allocation.pages, MADV_DONTNEED);
        mprotect(data, allocation.pages, PROT_NONE);
        free_[allocation.device].emplace(allocation.pages, found->first);
        used_[allocation.device] -= allocation.pages;
        live_.erase(found);
        return true;
    }

    void Enter() {
        if (scopes_++ == 0) {
            ProtectAll(PROT_READ | PROT_WRITE);
        }
    }
    void Leave() {
        if (--scopes_ == 0) {
            ProtectAll(PROT_NONE);
        }
    }

private:
    char *TakeAddress(int device, size_t pages) {
        // A page before and one behind stay out of reach.
        if (next_[device] + pages + 2 * kPage <= kPerDevice) {
            char *const data = begin_ + static_cast<size_t>(device) * kPerDevice + next_[device] + kPage;
            next_[device] += pages + 2 * kPage;
            return data;
        }
        const auto found = free_[device].find(pages);
        if (found == free_[device].end()) {
            return nullptr;
        }
        char *const data = found->second;
        free_[device].erase(found);
        return data;
    }

    void ProtectAll(int protection) {
        if (GetOptions().guards_memory) {
            for (const auto &[data, allocation] : live_) {
                mprotect(data, allocation.pages, protection);
            }
        }
    }

    char *begin_ = nullptr;
    int scopes_ = 0;
    size_t next_[kNumDevices] = {};
    size_t used_[kNumDevices] = {};
    std::map<char *, Allocation> live_;
    std::multimap<size_t, char *> free_[kNumDevices];
};

Arena &GetArena() {
    static Arena &arena = *new Arena;  // outlives whatever is destroyed at the end
    return arena;
}

std::map<const char *, size_t> &PinnedBlocks() {
    static auto &blocks = *new std::map<const char *, size_t>;
    return blocks;
}

}  // namespace

const char *ArenaBegin() {
    static const char *const begin = GetArena().begin();
    return begin;
}
bool IsDeviceMemory(const void *address) {
    return address >= ArenaBegin() && address < ArenaBegin() + kArenaBytes;
}

void *AllocateDeviceMemory(int device, size_t bytes) {
    return GetArena().Allocate(device, bytes == 0 ? 1 : bytes);
}
bool FreeDeviceMemory(void *data) {
    return GetArena().Free(data);
}
size_t FreeDeviceBytes(int device) {
    return GetArena().FreeBytes(device);
}

void *AllocatePinned(size_t bytes) {
    void *const data = std::aligned_alloc(kPage, (bytes + kPage) / kPage * kPage);
    PinnedBlocks()[static_cast<char *>(data)] = bytes;
    return data;
}
bool FreePinned(void *data) {
    if (PinnedBlocks().erase(static_cast<char *>(data)) == 0) {
        return false;
    }
    std::free(data);
    return true;
}
bool IsPinned(const void *address) {
    const auto &blocks = PinnedBlocks();
    const auto after = blocks.upper_bound(static_cast<const char *>(address));
    return after != blocks.begin() && address < std::prev(after)->first + std::prev(after)->second;
}

DeviceMemoryScope::DeviceMemoryScope() {
    GetArena().Enter();
}
DeviceMemoryScope::~DeviceMemoryScope() {
    GetArena().Leave();
}

}  // namespace cuda_emulation
