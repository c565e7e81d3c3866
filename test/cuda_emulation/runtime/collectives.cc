// Where threads of a warp or a block meet.

#include <algorithm>

#include "test/cuda_emulation/checker/checker.h"
#include "test/cuda_emulation/runtime/block.h"
#include "test/cuda_emulation/runtime/report.h"

namespace cuda_emulation {
namespace {

std::string Hex(uint32_t value) {
    char text[16];
    std::snprintf(text, sizeof(text), "0x%08x", value);
    return text;
}

[[noreturn]] void FailMask(const DeviceThread &thread, const char *why) {
    AddReport(Defect::kWrongMask, thread.pc, std::string(why) + " (" + Hex(thread.mask) + ")", cudaErrorLaunchFailure);
    AbandonKernel();
}

uint32_t LanesOf(const DeviceThread &thread) {
    return static_cast<uint32_t>(std::min<size_t>(32, block.threads.size() - thread.warp * 32));
}

// The lanes that wait for the same as this thread.
uint32_t Waiting(const DeviceThread &thread, const DeviceThread *lanes) {
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < LanesOf(thread); ++i) {
        if (lanes[i].state == ThreadState::kInWarp && lanes[i].mask == thread.mask &&
            lanes[i].operation == thread.operation) {
            waiting |= 1U << i;
        }
    }
    return waiting;
}

// Whether this was the last lane of its mask to come. Lanes may wait in several groups: one of them is counted as it
// gathers, the usual case; the others are looked for.
bool Completes(const DeviceThread &thread, const DeviceThread *lanes) {
    Block::Warp &warp = block.warps[thread.warp];
    if (warp.arrived == 0) {
        warp.mask = thread.mask;
        warp.operation = thread.operation;
        warp.arrived = Waiting(thread, lanes);
    } else if (warp.mask != thread.mask || warp.operation != thread.operation) {
        return Waiting(thread, lanes) == thread.mask;
    }
    warp.arrived |= 1U << thread.lane;
    if (warp.arrived != thread.mask) {
        return false;
    }
    warp.arrived = 0;
    return true;
}

}  // namespace

void MeetInWarp(uint32_t mask, WarpOperation operation, void *data, WarpExchange exchange, void *pc) {
    DeviceThread &thread = *block.current;
    thread.pc = pc;
    thread.data = data;
    thread.mask = mask;
    thread.operation = operation;
    const uint32_t num_lanes = LanesOf(thread);
    if ((mask >> thread.lane & 1) == 0) {
        FailMask(thread, "the calling lane isn't in its own mask");
    }
    if ((mask & block.warps[thread.warp].done) != 0) {
        FailMask(thread, "the mask has a lane that has returned");
    }
    if (num_lanes < 32 && mask >> num_lanes != 0) {
        FailMask(thread, "the mask has a lane that the block doesn't have");
    }
    thread.state = ThreadState::kInWarp;
    DeviceThread *const lanes = &block.threads[thread.warp * 32];
    if (!Completes(thread, lanes)) {
        Yield();
        return;
    }
    if (exchange != nullptr) {
        void *all[32] = {};
        for (uint32_t i = 0; i < num_lanes; ++i) {
            all[i] = lanes[i].data;
        }
        const InEmulation scope;
        exchange(all, mask);
    }
    if (operation == WarpOperation::kSync) {
        checker::OnWarpBarrier(thread.warp, mask);
    }
    for (uint32_t i = 0; i < num_lanes; ++i) {
        if ((mask >> i & 1) != 0) {
            lanes[i].state = ThreadState::kReady;
        }
    }
}

void MeetInBlock(void *data, BlockExchange exchange, void *pc) {
    DeviceThread &thread = *block.current;
    thread.data = data;
    thread.pc = pc;
    thread.state = ThreadState::kInBlock;
    if (++block.in_barrier == block.alive && exchange != nullptr) {
        const InEmulation scope;
        std::vector<void *> all;
        for (const DeviceThread &other : block.threads) {
            all.push_back(other.state == ThreadState::kInBlock ? other.data : nullptr);
        }
        exchange(all.data(), static_cast<uint32_t>(all.size()));
    }
    Yield();
}

void CheckBarrier() {
    if (block.alive < block.threads.size()) {
        const auto waiting = std::find_if(block.threads.begin(), block.threads.end(), [](const DeviceThread &thread) {
            return thread.state == ThreadState::kInBlock;
        });
        AddReport(Defect::kDivergentBarrier, waiting->pc,
                  std::to_string(block.threads.size() - block.alive) + " threads of the block have returned");
        return;
    }
    const void *const pc = block.threads[0].pc;
    for (const DeviceThread &thread : block.threads) {
        // The compiler may have copied the call, so the source decides.
        if (thread.pc != pc && SiteOf(thread.pc).chain != SiteOf(pc).chain) {
            AddReport(
                Defect::kDivergentBarrier, pc,
                "threads of a block are at different barriers: " + Describe(thread) + " at " + SiteOf(thread.pc).chain);
            return;
        }
    }
}

void ReportStuck() {
    std::string text = "waiting:";
    const void *pc = nullptr;
    int shown = 0;
    for (const DeviceThread &thread : block.threads) {
        if (thread.state != ThreadState::kInBlock && thread.state != ThreadState::kInWarp) {
            continue;
        }
        pc = pc == nullptr ? thread.pc : pc;
        // One thread of each place.
        const bool is_new = std::none_of(
            block.threads.begin(), block.threads.begin() + thread.linear,
            [&](const DeviceThread &other) { return other.state == thread.state && other.pc == thread.pc; });
        if (is_new && shown++ < 4) {
            text += " " + Describe(thread) + " in " +
                    (thread.state == ThreadState::kInBlock ? std::string("a barrier of the block")
                                                           : "an operation of the lanes " + Hex(thread.mask)) +
                    " at " + SiteOf(thread.pc).chain + ";";
        }
    }
    text += " " + std::to_string(block.threads.size() - block.alive) + " of " + std::to_string(block.threads.size()) +
            " threads have returned";
    AddReport(Defect::kNeverCompletes, pc, text, cudaErrorLaunchTimeout);
}

void Trap(const char *why, void *pc) {
    AddReport(Defect::kTrap, pc != nullptr ? pc : __builtin_return_address(0), why, cudaErrorIllegalInstruction);
    AbandonKernel();
}

void FailAlignment(const char *why, void *pc) {
    AddReport(Defect::kMisaligned, pc, why, cudaErrorMisalignedAddress);
    AbandonKernel();
}

void FailWarp(const char *why) {
    FailMask(*block.current, why);
}

}  // namespace cuda_emulation
