#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector_types.h>

#include "test/cuda_emulation/include/cuda_emulation/builtins.h"
#include "test/cuda_emulation/include/cuda_emulation/launch.h"

namespace cuda_emulation {

enum class ThreadState : uint8_t { kNew, kReady, kInBlock, kInWarp, kDone };

/// A thread of the running block: a fiber.
struct DeviceThread {
    uint3 index;
    uint32_t linear;
    uint32_t lane;
    uint32_t warp;
    ThreadState state;
    WarpOperation operation;
    uint32_t mask;
    void *data;  // what it brought to a meeting
    void *pc;    // where it is meeting
    void *stack_pointer;
    char *stack;
};

struct GridShape {
    dim3 grid;
    dim3 block;
    size_t shared_bytes;
    int device;
    size_t call_bytes;  // of the call with its arguments
};

/// Runs all blocks, one after the other.
void RunGrid(const void *kernel, const GridShape &shape, const Closure &call);

/// The running thread and its kernel; null while the host runs.
DeviceThread *CurrentThread();
const void *CurrentKernel();
int CurrentKernelDevice();
std::string Describe(const DeviceThread &thread);

/// Whether the running thread is in the emulation's own code, rather than in the kernel's.
bool IsInEmulation();

/// Says so while it exists.
class InEmulation {
public:
    InEmulation();
    ~InEmulation();
    InEmulation(const InEmulation &) = delete;
    InEmulation &operator=(const InEmulation &) = delete;

private:
    const bool before_;
};

/// Ends the running kernel: nothing of its grid runs any more. For its threads alone.
[[noreturn]] void AbandonKernel();

/// Held by every call of the runtime's: one host thread at a time.
std::recursive_mutex &RuntimeMutex();

}  // namespace cuda_emulation
