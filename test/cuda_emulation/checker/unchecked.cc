#include "test/cuda_emulation/checker/checker.h"

namespace cuda_emulation {

void OnAtomic(const void *, size_t, void *) {}
void OnFence() {}

namespace checker {

bool IsActive() {
    return false;
}
void OnAllocate(const void *, size_t) {}
void OnFree(const void *, size_t) {}
void OnHostRead(const void *, size_t, const char *) {}
void OnHostWrite(const void *, size_t) {}
void OnDeviceCopy(const void *, const void *, size_t) {}
void OnLaunch(size_t, const void *, size_t) {}
void OnLaunchEnd() {}
void OnBlock() {}
void OnThread(const DeviceThread &) {}
void OnBlockBarrier() {}
void OnWarpBarrier(uint32_t, uint32_t) {}
void OnAccess(const void *, size_t, bool, const void *) {}

}  // namespace checker
}  // namespace cuda_emulation
