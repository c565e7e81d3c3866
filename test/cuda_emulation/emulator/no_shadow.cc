// The emulation without the checker.

#include "test/cuda_emulation/emulator/shadow.h"

namespace cuda_emulation {

void ShadowAccess(const void *, size_t, Access, const void *) {}
void ShadowAllocate(const void *, size_t) {}
void ShadowFree(const void *, size_t) {}
void ShadowRead(const void *, size_t, const char *) {}
void ShadowWrite(const void *, size_t, const char *) {}
void ShadowCopy(const void *, const void *, size_t) {}
void ShadowStartGrid(const QueuedKernel &, size_t) {}
void ShadowStartBlock() {}
void ShadowBarrier() {}
void ShadowWarpBarrier(uint32_t) {}
void OnAtomic(const void *, size_t, const void *) {}
void OnFence() {}

}  // namespace cuda_emulation
