#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

namespace cuda_emulation {

// What the checker (shadow.cc) keeps about memory: which bytes belong to an allocation, which were written, and who
// read and wrote them last. In the plain emulation (no_shadow.cc) nothing.

enum class Access { kRead, kWrite, kAtomic };

/// The running thread reads or writes.
void ShadowAccess(const void *address, size_t size, Access access, const void *caller);

/// The device's memory comes, without a value, and goes.
void ShadowAllocate(const void *address, size_t size);
void ShadowFree(const void *address, size_t size);

/// A copy or a fill that isn't done by a kernel, named `who` in reports. Reading what nobody wrote is a defect unless
/// the copy stays on the device, where it hands on that nothing was written.
void ShadowRead(const void *address, size_t size, const char *who);
void ShadowWrite(const void *address, size_t size, const char *who);
void ShadowCopy(const void *to, const void *from, size_t size);

void ShadowStartGrid(const QueuedKernel &kernel, size_t dynamic_shared_bytes);
void ShadowStartBlock();
void ShadowBarrier();
void ShadowWarpBarrier(uint32_t warp);

}  // namespace cuda_emulation
