#pragma once

#include <cstddef>
#include <cstdint>

#include "test/cuda_emulation/runtime/scheduler.h"

/// What the runtime tells the checker. Two files implement it: unchecked.cc does nothing; the others watch every access
/// of kernels that were compiled with -fsanitize=thread.
namespace cuda_emulation::checker {

/// Whether this program has the checker.
bool IsActive();

void OnAllocate(const void *data, size_t bytes);
void OnFree(const void *data, size_t bytes);

/// A copy, a fill or a library's kernel reads or writes device memory; `what` ends the sentence of a report.
void OnHostRead(const void *data, size_t bytes, const char *what);
void OnHostWrite(const void *data, size_t bytes);
void OnDeviceCopy(const void *to, const void *from, size_t bytes);

/// `call` holds the arguments.
void OnLaunch(size_t shared_bytes, const void *call, size_t call_bytes);
void OnLaunchEnd();
void OnBlock();
void OnThread(const DeviceThread &thread);
void OnBlockBarrier();
void OnWarpBarrier(uint32_t warp, uint32_t mask);

/// An access of the running thread that isn't an instruction of its own.
void OnAccess(const void *address, size_t bytes, bool is_write, const void *pc);

}  // namespace cuda_emulation::checker
