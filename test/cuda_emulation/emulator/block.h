#pragma once

#include <cstdint>
#include <string>

#include <cuda_runtime.h>

namespace cuda_emulation {

/// Runs the blocks of a grid one after the other, each block's threads as fibers that take turns at barriers.
void RunGrid(const QueuedKernel &kernel, dim3 grid, dim3 block, size_t dynamic_shared_bytes);

/// Whether a thread of a grid is running, rather than the host or the emulation on its behalf.
bool IsInKernel();
/// The running thread's number in its block.
uint32_t RunningThread();
/// The lowest address of its stack.
const char *RunningStack();
/// ` by block (0, 0, 0), thread (3, 0, 0) of <kernel>`, or nothing.
std::string DescribeRunningThread();

/// Dynamic shared memory, the definition of `dynamic_shared`.
char *DynamicShared();
inline constexpr size_t kDynamicSharedCapacity = 232 * 1024;

}  // namespace cuda_emulation
