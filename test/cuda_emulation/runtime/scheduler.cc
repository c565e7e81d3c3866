#include "test/cuda_emulation/runtime/scheduler.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "test/cuda_emulation/checker/checker.h"
#include "test/cuda_emulation/runtime/block.h"
#include "test/cuda_emulation/runtime/fiber.h"
#include "test/cuda_emulation/runtime/options.h"
#include "test/cuda_emulation/runtime/report.h"

/// The shared memory that launches ask for, as launch.cuh declares it. A little more than a block may have.
alignas(1024) thread_local unsigned char dynamic_shared[232 * 1024];

extern "C" {
uint3 cuda_emulation_thread_index, cuda_emulation_block_index;
dim3 cuda_emulation_block_dim, cuda_emulation_grid_dim;
uint32_t cuda_emulation_lane_index;
}

namespace cuda_emulation {

Block block;

namespace {

constexpr uint32_t kWarpSize = 32;

// A permutation of 0 ... n - 1.
class Permutation {
public:
    explicit Permutation(uint64_t n) : n_(n) {
        if (n < 2 || CurrentOptions().order == Order::kForward) {
            return;
        }
        if (CurrentOptions().order == Order::kReverse) {
            start_ = step_ = n - 1;
            return;
        }
        start_ = NextRandom() % n;
        do {
            step_ = 1 + NextRandom() % (n - 1);
        } while (std::gcd(step_, n) != 1);
    }
    uint64_t operator()(uint64_t i) const { return (start_ + i * step_) % n_; }

private:
    uint64_t n_;
    uint64_t start_ = 0;
    uint64_t step_ = 1;
};

void ThreadMain() {
    block.call->Run();
    DeviceThread *const thread = block.current;
    thread->state = ThreadState::kDone;
    block.warps[thread->warp].done |= 1U << thread->lane;
    --block.alive;
    block.free_stacks.push_back(thread->stack);
    Yield();
}

void Resume(DeviceThread *thread) {
    if (thread->state == ThreadState::kNew) {
        // The stack that was used last is in the cache.
        thread->stack = block.free_stacks.back();
        block.free_stacks.pop_back();
        thread->stack_pointer = NewFiber(thread->stack, &ThreadMain);
        thread->state = ThreadState::kReady;
    }
    block.current = thread;
    cuda_emulation_thread_index = thread->index;
    cuda_emulation_lane_index = thread->lane;
    checker::OnThread(*thread);
    SwitchFiber(&block.scheduler, thread->stack_pointer);
    block.current = nullptr;
}

void SetUpBlock(const GridShape &shape, uint3 index) {
    const dim3 dims = shape.block;
    const uint32_t count = dims.x * dims.y * dims.z;
    cuda_emulation_block_index = index;
    block.threads.resize(count);
    block.free_stacks.resize(count);
    for (uint32_t i = 0; i < count; ++i) {
        DeviceThread &thread = block.threads[i];
        thread = DeviceThread{};
        thread.index = {i % dims.x, i / dims.x % dims.y, i / (dims.x * dims.y)};
        thread.linear = i;
        thread.lane = i % kWarpSize;
        thread.warp = i / kWarpSize;
        block.free_stacks[count - 1 - i] = FiberStack(i);
    }
    block.warps = {};
    block.alive = count;
    block.in_barrier = 0;
    DropCopies();
    checker::OnBlock();
}

// Runs the warp's threads until all wait or, in random order, once each. Returns whether any could run.
bool RunWarp(uint32_t warp) {
    const uint32_t first = warp * kWarpSize;
    const auto lanes = static_cast<uint32_t>(std::min<size_t>(kWarpSize, block.threads.size() - first));
    bool progress = false;
    for (bool ran = true; ran && !block.is_abandoned;) {
        ran = false;
        const Permutation lane(lanes);
        for (uint32_t i = 0; i < lanes && !block.is_abandoned; ++i) {
            DeviceThread &thread = block.threads[first + lane(i)];
            if (thread.state <= ThreadState::kReady) {
                Resume(&thread);
                ran = progress = true;
            }
        }
        if (CurrentOptions().order == Order::kRandom) {
            break;
        }
    }
    return progress;
}

void RunBlock(const GridShape &shape, uint3 index) {
    SetUpBlock(shape, index);
    const auto warps = static_cast<uint32_t>((block.threads.size() + kWarpSize - 1) / kWarpSize);
    while (block.alive > 0 && !block.is_abandoned) {
        bool progress = false;
        const Permutation warp(warps);
        for (uint32_t i = 0; i < warps && !block.is_abandoned; ++i) {
            progress |= RunWarp(static_cast<uint32_t>(warp(i)));
        }
        if (block.alive > 0 && block.in_barrier == block.alive) {
            CheckBarrier();
            for (DeviceThread &thread : block.threads) {
                if (thread.state == ThreadState::kInBlock) {
                    thread.state = ThreadState::kReady;
                }
            }
            block.in_barrier = 0;
            checker::OnBlockBarrier();
            progress = true;
        }
        if (!progress && !block.is_abandoned) {
            ReportStuck();
            block.is_abandoned = true;
        }
    }
}

}  // namespace

void Yield() {
    SwitchFiber(&block.current->stack_pointer, block.scheduler);
}

void AbandonKernel() {
    block.is_abandoned = true;
    block.is_in_emulation = false;
    for (;;) {
        Yield();
    }
}

void RunGrid(const void *kernel, const GridShape &shape, const Closure &call) {
    block.kernel = kernel;
    block.device = shape.device;
    block.call = &call;
    block.is_abandoned = false;
    cuda_emulation_block_dim = shape.block;
    cuda_emulation_grid_dim = shape.grid;
    checker::OnLaunch(shape.shared_bytes, &call, shape.call_bytes);
    const uint64_t count = uint64_t{shape.grid.x} * shape.grid.y * shape.grid.z;
    const Permutation order(count);
    for (uint64_t i = 0; i < count && !block.is_abandoned; ++i) {
        const uint64_t at = order(i);
        if (CurrentOptions().order == Order::kRandom && shape.shared_bytes > 0) {
            std::memset(dynamic_shared, static_cast<int>(NextRandom()), shape.shared_bytes);
        }
        RunBlock(shape,
                 {static_cast<unsigned>(at % shape.grid.x), static_cast<unsigned>(at / shape.grid.x % shape.grid.y),
                  static_cast<unsigned>(at / shape.grid.x / shape.grid.y)});
    }
    checker::OnLaunchEnd();
    block.kernel = nullptr;
    block.call = nullptr;
}

DeviceThread *CurrentThread() {
    return block.current;
}

const void *CurrentKernel() {
    return block.kernel;
}

int CurrentKernelDevice() {
    return block.device;
}

bool IsInEmulation() {
    return block.is_in_emulation;
}

InEmulation::InEmulation() : before_(block.is_in_emulation) {
    block.is_in_emulation = true;
}

InEmulation::~InEmulation() {
    block.is_in_emulation = before_;
}

std::string Describe(const DeviceThread &thread) {
    const auto triple = [](uint3 at) {
        return "(" + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " + std::to_string(at.z) + ")";
    };
    return "block " + triple(cuda_emulation_block_index) + " thread " + triple(thread.index);
}

std::recursive_mutex &RuntimeMutex() {
    static std::recursive_mutex mutex;
    return mutex;
}

}  // namespace cuda_emulation
