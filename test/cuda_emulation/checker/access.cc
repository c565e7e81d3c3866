// What an access may be: in bounds, of initialised memory, and ordered after those of others.

#include "test/cuda_emulation/checker/access.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "test/cuda_emulation/checker/checker.h"
#include "test/cuda_emulation/checker/places.h"
#include "test/cuda_emulation/checker/shadow.h"
#include "test/cuda_emulation/runtime/fiber.h"
#include "test/cuda_emulation/runtime/memory.h"
#include "test/cuda_emulation/runtime/report.h"
#include "test/cuda_emulation/runtime/scheduler.h"

namespace cuda_emulation {
namespace checker {
namespace {

constexpr uint8_t kAddressable = 1;
constexpr uint8_t kInitialised = 2;

Clock the_clock;
Places places;
const char *stack_begin = nullptr;  // of the running thread

// Of each byte of device memory.
uint8_t *States() {
    static auto *const states = static_cast<uint8_t *>(ReservePages(kArenaBytes));
    return states;
}
Shadow &GlobalShadow() {
    static Shadow shadow(kArenaBytes);
    return shadow;
}
Shadow &SharedShadow() {
    static Shadow shadow(places.shared_bytes());
    return shadow;
}
// For each byte of shared memory the block that wrote it.
uint32_t *SharedWriters() {
    static auto *const writers = static_cast<uint32_t *>(ReservePages(places.shared_bytes() * sizeof(uint32_t)));
    return writers;
}

std::string Describe(const Access &access) {
    return std::string(access.is_atomic  ? "an atomic operation"
                       : access.is_write ? "a write"
                                         : "a read") +
           " of " + std::to_string(access.bytes) + " bytes";
}

// Wrong in a way that a GPU wouldn't survive.
[[noreturn]] void Fail(Defect defect, const Access &access, const std::string &what, cudaError_t error) {
    AddReport(defect, access.pc, Describe(access) + " " + what, error);
    AbandonKernel();
}

void ReportRace(const Access &access, const Record &record, const char *kind) {
    const std::string other = "thread " + std::to_string(record.thread) +
                              (the_clock.IsOfThisBlock(record) ? " of the same block" : " of another block");
    AddReport(Defect::kRace, access.pc, std::string(kind) + " by " + other + ": " + Describe(access), cudaSuccess,
              places.PcAt(record.pc));
}

void CheckCell(Cell *cell, const Access &access, uint16_t thread, bool is_shared) {
    const bool both_atomic = access.is_atomic && (cell->write.flags & kAtomic) != 0;
    const bool after_write = the_clock.Conflicts(cell->write, thread, is_shared);
    if (after_write && !both_atomic) {
        ReportRace(access, cell->write, access.is_write ? "write after a write" : "read after a write");
    }
    const uint32_t pc = places.OffsetOf(access.pc);
    if (!access.is_write) {
        const bool after_read = the_clock.Conflicts(cell->read, thread, is_shared);
        const uint8_t flags = after_read ? the_clock.Merged(cell->read, thread) : 0;
        cell->read = the_clock.Now(thread, pc, flags);
        return;
    }
    if (the_clock.Conflicts(cell->read, thread, is_shared)) {
        ReportRace(access, cell->read, "write after a read");
    }
    uint8_t flags = access.is_atomic ? kAtomic : 0;
    if (after_write && both_atomic) {
        flags |= the_clock.Merged(cell->write, thread);
    }
    cell->write = the_clock.Now(thread, pc, flags);
}

// Words accessed whole have one cell; others get one for each byte, until the word is next accessed whole.
void CheckOrder(Shadow *shadow, size_t offset, const Access &access, uint16_t thread, bool is_shared) {
    for (size_t at = offset / 4 * 4; at < offset + access.bytes; at += 4) {
        Cell *const word = shadow->Word(at);
        const bool is_whole = at >= offset && at + 4 <= offset + access.bytes;
        const bool is_split = (word->write.flags & kSplit) != 0;
        if (is_whole && !is_split) {
            CheckCell(word, access, thread, is_shared);
            continue;
        }
        if (!is_split) {
            std::fill_n(shadow->Byte(at), 4, *word);
            word->write.flags |= kSplit;
        }
        for (size_t byte = std::max(at, offset); byte < std::min(at + 4, offset + access.bytes); ++byte) {
            CheckCell(shadow->Byte(byte), access, thread, is_shared);
        }
        if (is_whole && access.is_write) {
            // All four agree again, once the reads before this write don't matter.
            *word = *shadow->Byte(at);
        }
    }
}

void CheckGlobal(const Access &access, uint16_t thread) {
    const auto offset = static_cast<size_t>(access.address - Arena());
    uint8_t *const states = States() + offset;
    uint8_t all = kAddressable | kInitialised;
    for (size_t i = 0; i < access.bytes; ++i) {
        all &= states[i];
    }
    if ((all & kAddressable) == 0) {
        Fail(Defect::kOutOfBounds, access, "outside an allocation, or in one that was freed", cudaErrorIllegalAddress);
    }
    if (DeviceOf(access.address) != CurrentKernelDevice()) {
        Fail(Defect::kIllegalAddress, access, "of another device's memory", cudaErrorIllegalAddress);
    }
    if ((!access.is_write || access.is_atomic) && (all & kInitialised) == 0) {
        AddReport(Defect::kUninitialised, access.pc, Describe(access) + " of global memory that nobody wrote");
    }
    if (access.is_write && all != (kAddressable | kInitialised)) {
        std::memset(states, kAddressable | kInitialised, access.bytes);
    }
    CheckOrder(&GlobalShadow(), offset, access, thread, false);
}

void CheckShared(const Access &access, uint16_t thread) {
    if (places.IsBeyondDynamic(access.address, access.bytes)) {
        Fail(Defect::kOutOfBounds, access, "beyond the launch's dynamic shared memory", cudaErrorIllegalAddress);
    }
    const size_t offset = places.SharedOffset(access.address);
    uint32_t *const writers = SharedWriters() + offset;
    const uint32_t block = the_clock.block_begin();
    if (!access.is_write || access.is_atomic) {
        if (std::any_of(writers, writers + access.bytes, [&](uint32_t writer) { return writer != block; })) {
            AddReport(Defect::kUninitialised, access.pc,
                      Describe(access) + " of shared memory that no thread of the block wrote");
        }
    }
    if (access.is_write) {
        std::fill_n(writers, access.bytes, block);
    }
    CheckOrder(&SharedShadow(), offset, access, thread, true);
}

}  // namespace

void Check(const Access &access) {
    const DeviceThread *const thread = CurrentThread();
    if (thread == nullptr || IsInEmulation() || static_cast<size_t>(access.address - stack_begin) < kStackBytes) {
        return;
    }
    const InEmulation scope;
    const auto linear = static_cast<uint16_t>(thread->linear);
    if (!access.may_be_misaligned && access.bytes <= 16 &&
        reinterpret_cast<uintptr_t>(access.address) % access.bytes != 0) {
        Fail(Defect::kMisaligned, access, "at an address that isn't a multiple of that", cudaErrorMisalignedAddress);
    }
    if (IsDevice(access.address)) {
        CheckGlobal(access, linear);
    } else if (places.IsShared(access.address)) {
        CheckShared(access, linear);
    } else if (IsOnFiberStack(access.address)) {
        Fail(Defect::kIllegalAddress, access, "of another thread's local memory", cudaErrorIllegalAddress);
    } else if (!places.IsArgument(access.address) && !places.IsOfProgram(access.address)) {
        Fail(Defect::kIllegalAddress, access, "of memory that isn't the device's", cudaErrorIllegalAddress);
    }
}

bool IsActive() {
    return true;
}

void OnAllocate(const void *data, size_t bytes) {
    std::memset(States() + (static_cast<const char *>(data) - Arena()), kAddressable, bytes);
}

void OnFree(const void *data, size_t bytes) {
    std::memset(States() + (static_cast<const char *>(data) - Arena()), 0, bytes);
}

void OnHostRead(const void *data, size_t bytes, const char *what) {
    const uint8_t *const states = States() + (static_cast<const char *>(data) - Arena());
    const uint8_t *const end = states + bytes;
    if (std::any_of(states, end, [](uint8_t state) { return (state & kAddressable) == 0; })) {
        AddReport(Defect::kOutOfBounds, nullptr, std::string("memory outside an allocation is ") + what,
                  cudaErrorIllegalAddress);
    } else if (std::any_of(states, end, [](uint8_t state) { return (state & kInitialised) == 0; })) {
        AddReport(Defect::kUninitialised, nullptr, std::string("memory that nobody wrote is ") + what);
    }
}

void OnHostWrite(const void *data, size_t bytes) {
    uint8_t *const states = States() + (static_cast<const char *>(data) - Arena());
    if (std::any_of(states, states + bytes, [](uint8_t state) { return (state & kAddressable) == 0; })) {
        AddReport(Defect::kOutOfBounds, nullptr, "memory outside an allocation is written", cudaErrorIllegalAddress);
        return;
    }
    std::memset(states, kAddressable | kInitialised, bytes);
}

void OnDeviceCopy(const void *to, const void *from, size_t bytes) {
    std::memmove(States() + (static_cast<const char *>(to) - Arena()),
                 States() + (static_cast<const char *>(from) - Arena()), bytes);
}

void OnLaunch(size_t shared_bytes, const void *call, size_t call_bytes) {
    places.OnLaunch(shared_bytes, call, call_bytes);
    the_clock.OnLaunch();
}

void OnLaunchEnd() {}

void OnBlock() {
    the_clock.OnBlock();
}

void OnThread(const DeviceThread &thread) {
    stack_begin = thread.stack;
}

void OnBlockBarrier() {
    the_clock.OnBlockBarrier();
}

void OnWarpBarrier(uint32_t warp, uint32_t /*mask*/) {
    the_clock.OnWarpBarrier(warp);
}

void OnAccess(const void *address, size_t bytes, bool is_write, const void *pc) {
    Check({static_cast<const char *>(address), bytes, pc, is_write});
}

}  // namespace checker

void OnAtomic(const void *address, size_t bytes, void *pc) {
    if (const DeviceThread *const thread = CurrentThread(); thread != nullptr && IsDevice(address)) {
        checker::the_clock.OnGlobalAtomic(address, static_cast<uint16_t>(thread->linear));
    }
    checker::Check({static_cast<const char *>(address), bytes, pc, true, true});
}

void OnFence() {
    if (const DeviceThread *const thread = CurrentThread()) {
        checker::the_clock.OnFence(static_cast<uint16_t>(thread->linear));
    }
}

}  // namespace cuda_emulation
