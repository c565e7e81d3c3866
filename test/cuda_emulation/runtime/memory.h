#pragma once

#include <cstddef>
#include <driver_types.h>

namespace cuda_emulation {

/// Device memory: a range of addresses that only kernels and the runtime's own calls may touch.
inline constexpr size_t kArenaBytes = size_t{64} << 30;
char *Arena();
bool IsDevice(const void *address);
/// Which device an address belongs to: each has a part of the range.
int DeviceOf(const void *address);

/// Whether all of it lies in one live allocation.
bool IsAllocated(const void *address, size_t bytes);
bool IsPinned(const void *address);

/// An allocation of at least `bytes` bytes: filled with 0xFF, NaN in every floating-point type, aligned to 256 bytes
/// and close to a page that nobody may touch. An address isn't given out again while there are others.
cudaError_t AllocateDevice(int device, void **data, size_t bytes);
cudaError_t FreeDevice(void *data);
void DeviceMemoryInfo(int device, size_t *free, size_t *total);

cudaError_t AllocatePinned(void **data, size_t bytes);
cudaError_t FreePinned(void *data);

/// While one exists device memory may be touched. Afterwards the host can't, mostly: Options::guard_every.
class DeviceScope {
public:
    DeviceScope();
    ~DeviceScope();
    DeviceScope(const DeviceScope &) = delete;
    DeviceScope &operator=(const DeviceScope &) = delete;
};

/// Opens the allocation around an address for the host, until the next DeviceScope closes; false if there is none.
bool OpenForHost(const void *address);

}  // namespace cuda_emulation
