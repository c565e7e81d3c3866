#pragma once

#include <array>
#include <vector>

#include "test/cuda_emulation/runtime/scheduler.h"

namespace cuda_emulation {

/// The running block. Shared by the files that make up the scheduler.
struct Block {
    struct Warp {
        uint32_t done;     // lanes that have returned
        uint32_t arrived;  // lanes that wait for `mask` and `operation`
        uint32_t mask;
        WarpOperation operation;
    };

    std::vector<DeviceThread> threads;
    std::vector<char *> free_stacks;
    std::array<Warp, 32> warps{};
    uint32_t alive = 0;
    uint32_t in_barrier = 0;
    const Closure *call = nullptr;
    const void *kernel = nullptr;
    int device = 0;
    void *scheduler = nullptr;  // where the scheduler goes on
    DeviceThread *current = nullptr;
    bool is_in_emulation = false;
    bool is_abandoned = false;
};
extern Block block;

/// Back to the scheduler, until it resumes this thread.
void Yield();

/// Reports that nobody can go on.
void ReportStuck();
/// Looks at the barrier at which all threads of the block have arrived.
void CheckBarrier();
/// Forgets the copies of the last block.
void DropCopies();

}  // namespace cuda_emulation
