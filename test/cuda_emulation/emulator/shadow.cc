// The checker: what -fsanitize=thread plants in kernels calls here (tsan_hooks.cc), about every access to memory.

#include "test/cuda_emulation/emulator/shadow.h"

#include <cstdio>
#include <cstring>
#include <link.h>
#include <new>
#include <string>
#include <sys/mman.h>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "test/cuda_emulation/emulator/block.h"
#include "test/cuda_emulation/emulator/defects.h"
#include "test/cuda_emulation/emulator/fiber.h"
#include "test/cuda_emulation/emulator/memory.h"

namespace cuda_emulation {
namespace {

constexpr uint8_t kAllocated = 1, kWritten = 2;

// Whom an access was shared with, besides the thread that is noted.
constexpr uint8_t kOthersOfWarp = 1, kOthersOfBlock = 2, kOtherBlocks = 4;

// Who read or wrote a byte last.
struct Note {
    uint32_t block = 0;   // its number among all that ever ran; 0 for nobody
    uint32_t caller = 0;  // relative to the program's text
    uint16_t thread = 0;
    uint16_t barrier = 0;  // how many barriers the block had passed
    uint16_t warp_barrier = 0;
    uint8_t shared_with = 0;
    bool is_atomic = false;
};
struct Notes {
    Note write, read;
};

template <typename T>
T *Reserve(size_t count) {
    void *const memory =
        mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        throw std::bad_alloc();
    }
    return static_cast<T *>(memory);
}

// Of the devices' memory, a byte a byte.
uint8_t *const state = Reserve<uint8_t>(kArenaBytes);
Notes *const notes = Reserve<Notes>(kArenaBytes);

// Of shared memory, which is the thread-local storage of the thread that runs the grid.
struct Shared {
    const char *begin = nullptr, *end = nullptr;
    std::vector<uint32_t> written_by;  // block
    std::vector<Notes> notes;
} shared;

struct Range {
    const char *begin, *end;
    bool Contains(const void *address) const { return address >= begin && address < end; }
};
std::vector<Range> program;  // its segments: constants, literals
const char *text = nullptr;

// The grid that is running.
uint32_t block_number = 0;
uint32_t first_block = 1;
uint16_t barriers = 0;
uint16_t warp_barriers[32] = {};
Range arguments{};
const char *dynamic_end = nullptr;
bool has_fenced[1024] = {};
// A thread that has fenced and then does an atomic operation releases what its block knows to those who later do an
// atomic operation at the same address.
std::unordered_map<const void *, std::vector<uint32_t>> released;
std::unordered_set<uint32_t> acquired;

int FindSegments(dl_phdr_info *info, size_t /*size*/, void * /*data*/) {
    const auto *const base = reinterpret_cast<const char *>(info->dlpi_addr);
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const auto &header = info->dlpi_phdr[i];
        if (header.p_type == PT_LOAD) {
            program.push_back({base + header.p_vaddr, base + header.p_vaddr + header.p_memsz});
        }
        const auto *const tls = static_cast<const char *>(info->dlpi_tls_data);
        if (header.p_type == PT_TLS && tls != nullptr && Range{tls, tls + header.p_memsz}.Contains(DynamicShared())) {
            shared.begin = tls;
            shared.end = tls + header.p_memsz;
            text = base;
        }
    }
    return 0;
}

std::string Earlier(const Note &note, const char *what) {
    char place[120];
    std::snprintf(place, sizeof(place), "; earlier %s by thread %u of %s at ", what, note.thread,
                  note.block == block_number ? "this block" : "another block");
    return place + SourceLine(text + note.caller);
}

// Whether this thread may rely on what the note says being over.
bool IsOrdered(const Note &note, uint32_t thread, uint32_t first) {
    if (note.block < first) {
        return true;  // an earlier grid, or nobody
    }
    if ((note.shared_with & kOtherBlocks) != 0) {
        return acquired.size() >= block_number - first_block;
    }
    if (note.block != block_number) {
        return acquired.contains(note.block);
    }
    if (note.barrier != barriers || (note.thread == thread && note.shared_with == 0)) {
        return true;
    }
    return note.thread / warpSize == thread / warpSize && note.shared_with < kOthersOfBlock &&
           note.warp_barrier != warp_barriers[thread / warpSize];
}

// A read is noted along with those before it, as far as they aren't over for this thread: whoever must wait for those
// that are must wait for this one, too.
void NoteRead(Notes *of, Note read, uint32_t first) {
    const Note &last = of->read;
    if (!IsOrdered(last, read.thread, first)) {
        read.shared_with |= last.shared_with;
        if (last.block != block_number) {
            read.shared_with |= kOtherBlocks;
        } else if (last.thread != read.thread) {
            read.shared_with |= last.thread / warpSize == read.thread / warpSize ? kOthersOfWarp : kOthersOfBlock;
        }
        read.is_atomic = read.is_atomic && last.is_atomic;
    }
    of->read = read;
}

void CheckRaces(Notes *of, uint32_t first, Access access, const void *caller) {
    const uint32_t thread = RunningThread();
    const bool is_atomic = access == Access::kAtomic;
    const bool writes = access != Access::kRead;
    const auto races = [&](const Note &note) {
        return !IsOrdered(note, thread, first) && !(is_atomic && note.is_atomic);
    };
    if (races(of->write)) {
        ReportDefect(writes ? "race: write after write" : "race: read after write", caller,
                     Earlier(of->write, "written"));
    } else if (writes && races(of->read)) {
        ReportDefect("race: write after read", caller, Earlier(of->read, "read"));
    }
    const Note now{block_number,
                   static_cast<uint32_t>(static_cast<const char *>(caller) - text),
                   static_cast<uint16_t>(thread),
                   barriers,
                   warp_barriers[thread / warpSize],
                   0,
                   is_atomic};
    if (writes) {
        of->write = now;
    }
    if (access != Access::kWrite) {
        NoteRead(of, now, first);
    }
}

// Bytes that were used together until now need to be looked at once.
void CheckBytes(Notes *of, size_t size, uint32_t first, Access access, const void *caller) {
    const Notes before = of[0];
    CheckRaces(of, first, access, caller);
    for (size_t i = 1; i < size; ++i) {
        if (std::memcmp(&of[i], &before, sizeof(Notes)) == 0) {
            of[i] = of[0];
        } else {
            CheckRaces(&of[i], first, access, caller);
        }
    }
}

void GlobalAccess(const char *address, size_t size, Access access, const void *caller) {
    const auto offset = static_cast<size_t>(address - ArenaBegin());
    uint8_t all = kAllocated | kWritten;
    for (size_t i = 0; i < size; ++i) {
        all &= state[offset + i];
    }
    if ((all & kAllocated) == 0) {
        ReportDefect(access == Access::kRead ? "global memory read out of bounds or after it was freed"
                                             : "global memory written out of bounds or after it was freed",
                     caller);
        return;
    }
    if (access != Access::kWrite && (all & kWritten) == 0) {
        ReportDefect("global memory read that nobody wrote", caller);
    }
    if (access != Access::kRead) {
        std::memset(state + offset, kAllocated | kWritten, size);
    }
    CheckBytes(notes + offset, size, first_block, access, caller);
}

void SharedAccess(const char *address, size_t size, Access access, const void *caller) {
    const Range dynamic{DynamicShared(), DynamicShared() + kDynamicSharedCapacity};
    if (dynamic.Contains(address) && address + size > dynamic_end) {
        ReportDefect("access beyond the dynamic shared memory of the launch", caller);
        return;
    }
    const auto offset = static_cast<size_t>(address - shared.begin);
    for (size_t i = 0; i < size; ++i) {
        if (access != Access::kWrite && shared.written_by[offset + i] != block_number) {
            ReportDefect("shared memory read that no thread of the block wrote", caller);
            break;
        }
    }
    if (access != Access::kRead) {
        std::fill_n(shared.written_by.begin() + static_cast<std::ptrdiff_t>(offset), size, block_number);
    }
    CheckBytes(shared.notes.data() + offset, size, block_number, access, caller);
}

bool IsPartOfProgram(const void *address) {
    for (const Range &segment : program) {
        if (segment.Contains(address)) {
            return true;
        }
    }
    return false;
}

}  // namespace

void ShadowAccess(const void *pointer, size_t size, Access access, const void *caller) {
    const auto *const address = static_cast<const char *>(pointer);
    if (size == 0 || !IsInKernel()) {
        return;
    }
    if (address >= RunningStack() && address < RunningStack() + Fiber::kStackBytes) {
        return;
    }
    if (IsDeviceMemory(address)) {
        GlobalAccess(address, size, access, caller);
    } else if (address >= shared.begin && address + size <= shared.end) {
        SharedAccess(address, size, access, caller);
    } else if (IsOnFiberStack(address)) {
        ReportDefect("access to another thread's local memory", caller);
    } else if (!arguments.Contains(address) && !IsPartOfProgram(address)) {
        ReportDefect("access to memory of the host", caller);
    }
}

void ShadowAllocate(const void *address, size_t size) {
    std::memset(state + (static_cast<const char *>(address) - ArenaBegin()), kAllocated, size);
}
void ShadowFree(const void *address, size_t size) {
    const auto offset = static_cast<size_t>(static_cast<const char *>(address) - ArenaBegin());
    std::memset(state + offset, 0, size);
    std::memset(static_cast<void *>(notes + offset), 0, size * sizeof(Notes));
}

void ShadowRead(const void *address, size_t size, const char *who) {
    const uint8_t *const of = state + (static_cast<const char *>(address) - ArenaBegin());
    for (size_t i = 0; i < size; ++i) {
        if ((of[i] & kAllocated) == 0) {
            ReportDefect("global memory read out of bounds or after it was freed", nullptr, std::string(" by ") + who);
            return;
        }
        if ((of[i] & kWritten) == 0) {
            ReportDefect("global memory read that nobody wrote", nullptr, std::string(" by ") + who);
            return;
        }
    }
}
void ShadowWrite(const void *address, size_t size, const char *who) {
    uint8_t *const of = state + (static_cast<const char *>(address) - ArenaBegin());
    for (size_t i = 0; i < size; ++i) {
        if ((of[i] & kAllocated) == 0) {
            ReportDefect("global memory written out of bounds or after it was freed", nullptr,
                         std::string(" by ") + who);
            return;
        }
        of[i] |= kWritten;
    }
}
void ShadowCopy(const void *to, const void *from, size_t size) {
    uint8_t *const target = state + (static_cast<const char *>(to) - ArenaBegin());
    const uint8_t *const source = state + (static_cast<const char *>(from) - ArenaBegin());
    for (size_t i = 0; i < size; ++i) {
        if ((target[i] & source[i] & kAllocated) == 0) {
            ReportDefect("global memory touched out of bounds or after it was freed", nullptr,
                         " by a copy on the device");
            return;
        }
    }
    std::memmove(target, source, size);
}

void ShadowStartGrid(const QueuedKernel &kernel, size_t dynamic_shared_bytes) {
    if (!Range{shared.begin, shared.end}.Contains(DynamicShared())) {
        // The first grid, or the first one of another thread of the host.
        program.clear();
        dl_iterate_phdr(FindSegments, nullptr);
        const auto size = static_cast<size_t>(shared.end - shared.begin);
        shared.written_by.assign(size, 0);
        shared.notes.assign(size, {});
    }
    const auto *const object = reinterpret_cast<const char *>(&kernel);
    arguments = {object, object + kernel.bytes};
    dynamic_end = DynamicShared() + dynamic_shared_bytes;
    first_block = block_number + 1;
    released.clear();
}
void ShadowStartBlock() {
    ++block_number;
    barriers = 0;
    std::memset(warp_barriers, 0, sizeof(warp_barriers));
    std::memset(has_fenced, 0, sizeof(has_fenced));
    acquired.clear();
}
void ShadowBarrier() {
    ++barriers;
}
void ShadowWarpBarrier(uint32_t warp) {
    ++warp_barriers[warp];
}

void OnFence() {
    has_fenced[RunningThread()] = true;
}
void OnAtomic(const void *address, size_t size, const void *caller) {
    if (IsInKernel() && IsDeviceMemory(address)) {
        const auto found = released.find(address);
        if (found != released.end()) {
            acquired.insert(found->second.begin(), found->second.end());
        }
        if (has_fenced[RunningThread()]) {
            std::vector<uint32_t> &known = released[address];
            known.insert(known.end(), acquired.begin(), acquired.end());
            known.push_back(block_number);
        }
    }
    ShadowAccess(address, size, Access::kAtomic, caller);
}

}  // namespace cuda_emulation
