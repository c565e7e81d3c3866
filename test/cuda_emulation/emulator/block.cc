// Blocks, warps and lanes: who runs next, and who waits for whom.

#include "test/cuda_emulation/emulator/block.h"

#include <array>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "test/cuda_emulation/emulator/defects.h"
#include "test/cuda_emulation/emulator/fiber.h"
#include "test/cuda_emulation/emulator/options.h"
#include "test/cuda_emulation/emulator/shadow.h"

// As kernels declare it. Aligned as a GPU aligns it for those that rely on it.
alignas(1024) thread_local unsigned char dynamic_shared[cuda_emulation::kDynamicSharedCapacity];

extern "C" {
uint3 cuda_emulation_thread_index, cuda_emulation_block_index;
dim3 cuda_emulation_block_dim, cuda_emulation_grid_dim;
uint32_t cuda_emulation_lane;
}

namespace cuda_emulation {
namespace {

enum class State { kNew, kReady, kAtBarrier, kAtWarp, kDone };

struct Thread {
    uint3 index;
    uint32_t number, lane, warp;
    State state = State::kNew;
    Fiber fiber;
    char *stack = nullptr;
    // Of the collective operation at which it waits.
    uint32_t mask = 0;
    WarpOperation operation{};
    void *data = nullptr;
    const void *caller = nullptr;
};

struct CopyOrder {
    void *to;
    const void *from;
    size_t size, zeros;
    const void *caller;
};

// The block that is running.
struct Block {
    std::vector<Thread> threads;
    std::vector<char *> free_stacks;
    std::array<uint32_t, 32> done_lanes{};                          // of each warp
    std::map<uint32_t, std::deque<std::vector<CopyOrder>>> copies;  // of each thread, by group; the last one is open
    uint32_t alive = 0;
    uint32_t at_barrier = 0;
    bool has_failed = false;
    const QueuedKernel *kernel = nullptr;
    Fiber scheduler;
};

Block block;
Thread *running = nullptr;
bool is_exchanging = false;  // the emulation moves data between threads

// The numbers 0 to count - 1 in the order that the options ask for.
class Sequence {
public:
    explicit Sequence(uint64_t count) : count_(count) {
        const auto order = GetOptions().order;
        if (count < 2 || order == Options::Order::kForward) {
            return;
        }
        if (order == Options::Order::kReverse) {
            first_ = step_ = count - 1;
            return;
        }
        first_ = NextRandom() % count;
        do {
            step_ = 1 + NextRandom() % (count - 1);
        } while (std::gcd(step_, count) != 1);
    }
    uint64_t operator[](uint64_t i) const {
        return static_cast<uint64_t>((first_ + static_cast<unsigned __int128>(i) * step_) % count_);
    }

private:
    uint64_t count_;
    uint64_t first_ = 0;
    uint64_t step_ = 1;
};

std::string Describe(const Thread &thread) {
    char text[160];
    std::snprintf(text, sizeof(text), "block (%u, %u, %u), thread (%u, %u, %u)", cuda_emulation_block_index.x,
                  cuda_emulation_block_index.y, cuda_emulation_block_index.z, thread.index.x, thread.index.y,
                  thread.index.z);
    return text;
}

void Yield() {
    block.scheduler.SwitchFrom(&running->fiber);
}

// The body of every fiber.
void ThreadMain() {
    for (;;) {
        Thread *const thread = running;
        block.kernel->RunThread();
        thread->state = State::kDone;
        block.done_lanes[thread->warp] |= 1U << thread->lane;
        --block.alive;
        block.free_stacks.push_back(thread->stack);
        Yield();
    }
}

void Resume(Thread *thread) {
    if (thread->state == State::kNew) {
        thread->stack = block.free_stacks.back();
        block.free_stacks.pop_back();
        thread->fiber.Start(thread->stack, ThreadMain);
        thread->state = State::kReady;
    }
    running = thread;
    cuda_emulation_thread_index = thread->index;
    cuda_emulation_lane = thread->lane;
    thread->fiber.SwitchFrom(&block.scheduler);
    running = nullptr;
}

void StartBlock(const QueuedKernel &kernel, dim3 size) {
    const uint32_t count = size.x * size.y * size.z;
    block.threads.assign(count, {});
    block.free_stacks.clear();
    for (uint32_t i = count; i-- > 0;) {
        block.free_stacks.push_back(FiberStack(i));
    }
    block.done_lanes = {};
    block.copies.clear();
    block.alive = count;
    block.at_barrier = 0;
    block.has_failed = false;
    block.kernel = &kernel;
    for (uint32_t i = 0; i < count; ++i) {
        Thread &thread = block.threads[i];
        thread.index = {i % size.x, i / size.x % size.y, i / (size.x * size.y)};
        thread.number = i;
        thread.lane = i % warpSize;
        thread.warp = i / warpSize;
    }
}

// Runs every thread that can go on until it can't; whether there was one.
bool RunReadyThreads() {
    const auto count = static_cast<uint32_t>(block.threads.size());
    const uint32_t warps = (count + warpSize - 1) / warpSize;
    bool has_run = false;
    const Sequence warp_order(warps);
    for (uint32_t i = 0; i < warps; ++i) {
        const auto first = static_cast<uint32_t>(warp_order[i]) * warpSize;
        const uint32_t lanes = std::min<uint32_t>(warpSize, count - first);
        for (bool again = true; again;) {
            again = false;
            const Sequence lane_order(lanes);
            for (uint32_t j = 0; j < lanes; ++j) {
                Thread &thread = block.threads[first + lane_order[j]];
                if (thread.state == State::kNew || thread.state == State::kReady) {
                    Resume(&thread);
                    has_run = again = true;
                }
                if (block.has_failed) {
                    return true;
                }
            }
            // In random order another warp may go on before this one does.
            again = again && GetOptions().order != Options::Order::kRandom;
        }
    }
    return has_run;
}

void OpenBarrier() {
    std::set<std::string> lines;
    std::set<const void *> callers;
    for (Thread &thread : block.threads) {
        if (thread.state == State::kAtBarrier) {
            callers.insert(thread.caller);
            thread.state = State::kReady;
        }
    }
    block.at_barrier = 0;
    if (callers.size() > 1) {
        // One line may be compiled more than once.
        for (const void *caller : callers) {
            lines.insert(SourceLine(caller));
        }
        if (lines.size() > 1) {
            ReportDefect("divergent barrier: threads of a block meet at different ones", *callers.begin(),
                         "; others at " + *lines.rbegin());
        }
    }
    ShadowBarrier();
}

void ReportDeadlock() {
    std::string waiting;
    int shown = 0;
    for (const Thread &thread : block.threads) {
        if (thread.state != State::kAtBarrier && thread.state != State::kAtWarp) {
            continue;
        }
        if (shown++ == 2) {
            waiting += "; ...";
            break;
        }
        char mask[40] = "";
        if (thread.state == State::kAtWarp) {
            std::snprintf(mask, sizeof(mask), " with the mask %08x", thread.mask);
        }
        waiting += "; " + Describe(thread) + " waits at " + SourceLine(thread.caller) + mask;
    }
    ReportDefect("threads wait for others that never come: a divergent barrier or a wrong mask", nullptr, waiting);
    block.has_failed = true;
}

void RunBlock(const QueuedKernel &kernel, dim3 size) {
    StartBlock(kernel, size);
    ShadowStartBlock();
    while (block.alive > 0 && !block.has_failed) {
        bool has_run = RunReadyThreads();
        if (block.has_failed) {
            break;
        }
        if (block.alive > 0 && block.at_barrier == block.alive) {
            OpenBarrier();
            has_run = true;
        }
        if (!has_run) {
            ReportDeadlock();
        }
    }
}

}  // namespace

bool IsInKernel() {
    return running != nullptr && !is_exchanging;
}
uint32_t RunningThread() {
    return running->number;
}
const char *RunningStack() {
    return running->stack;
}
std::string DescribeRunningThread() {
    return running == nullptr ? "" : " by " + Describe(*running);
}
char *DynamicShared() {
    return reinterpret_cast<char *>(dynamic_shared);
}

void RunGrid(const QueuedKernel &kernel, dim3 grid, dim3 size, size_t dynamic_shared_bytes) {
    cuda_emulation_grid_dim = grid;
    cuda_emulation_block_dim = size;
    ShadowStartGrid(kernel, dynamic_shared_bytes);
    const uint64_t blocks = static_cast<uint64_t>(grid.x) * grid.y * grid.z;
    const Sequence order(blocks);
    for (uint64_t i = 0; i < blocks; ++i) {
        const uint64_t number = order[i];
        cuda_emulation_block_index = {static_cast<uint32_t>(number % grid.x),
                                      static_cast<uint32_t>(number / grid.x % grid.y),
                                      static_cast<uint32_t>(number / grid.x / grid.y)};
        // What is in shared memory at first is anything: NaN in every floating-point type.
        std::memset(dynamic_shared, 0xff, dynamic_shared_bytes);
        RunBlock(kernel, size);
    }
}

void Trap(const char *why, const void *caller) {
    is_exchanging = false;
    ReportDefect(why, caller);
    block.has_failed = true;
    for (;;) {
        Yield();
    }
}

void BlockCollective(void *data, void (*exchange)(void **threads, uint32_t count), const void *caller) {
    Thread *const thread = running;
    thread->data = data;
    thread->caller = caller;
    thread->state = State::kAtBarrier;
    if (++block.at_barrier == block.alive && exchange != nullptr) {
        std::vector<void *> all(block.threads.size(), nullptr);
        for (const Thread &other : block.threads) {
            all[other.number] = other.state == State::kAtBarrier ? other.data : nullptr;
        }
        is_exchanging = true;
        exchange(all.data(), static_cast<uint32_t>(all.size()));
        is_exchanging = false;
    }
    Yield();
}

void WarpCollective(uint32_t mask, WarpOperation operation, void *data, void (*exchange)(void **lanes, uint32_t mask),
                    const void *caller) {
    Thread *const thread = running;
    Thread *const warp = &block.threads[static_cast<size_t>(thread->warp) * warpSize];
    const auto left = static_cast<uint32_t>(block.threads.size()) - thread->warp * warpSize;
    const uint32_t lanes = std::min<uint32_t>(warpSize, left);
    if ((mask >> thread->lane & 1U) == 0) {
        Trap("a lane isn't in its own mask", caller);
    }
    if (lanes < warpSize && mask >> lanes != 0) {
        Trap("a mask names a lane beyond the block", caller);
    }
    if ((mask & block.done_lanes[thread->warp]) != 0) {
        Trap("a mask names a lane that has returned", caller);
    }
    thread->mask = mask;
    thread->operation = operation;
    thread->data = data;
    thread->caller = caller;
    thread->state = State::kAtWarp;
    // Lanes that have parted may wait at several operations at once.
    uint32_t arrived = 0;
    void *all[warpSize] = {};
    for (uint32_t i = 0; i < lanes; ++i) {
        const Thread &other = warp[i];
        if (other.state == State::kAtWarp && other.mask == mask && other.operation == operation) {
            arrived |= 1U << i;
            all[i] = other.data;
        }
    }
    if (arrived != mask) {
        Yield();
        return;
    }
    if (exchange != nullptr) {
        is_exchanging = true;
        exchange(all, mask);
        is_exchanging = false;
    }
    if (operation == WarpOperation::kBarrier) {
        ShadowWarpBarrier(thread->warp);
    }
    for (uint32_t i = 0; i < lanes; ++i) {
        if ((mask >> i & 1U) != 0) {
            warp[i].state = State::kReady;
        }
    }
    // This lane goes on at once.
}

void CopyAsync(void *to, const void *from, size_t size, size_t zeros, const void *caller) {
    auto &groups = block.copies[running->number];
    if (groups.empty()) {
        groups.emplace_back();
    }
    groups.back().push_back({to, from, size, zeros, caller});
}

void CommitCopies() {
    auto &groups = block.copies[running->number];
    if (groups.empty()) {
        groups.emplace_back();
    }
    groups.emplace_back();
}

void WaitForCopies(unsigned left) {
    auto &groups = block.copies[running->number];
    while (groups.size() > 1 + static_cast<size_t>(left)) {
        for (const CopyOrder &copy : groups.front()) {
            ShadowAccess(copy.from, copy.size - copy.zeros, Access::kRead, copy.caller);
            ShadowAccess(copy.to, copy.size, Access::kWrite, copy.caller);
            std::memcpy(copy.to, copy.from, copy.size - copy.zeros);
            std::memset(static_cast<char *>(copy.to) + copy.size - copy.zeros, 0, copy.zeros);
        }
        groups.pop_front();
    }
}

}  // namespace cuda_emulation
