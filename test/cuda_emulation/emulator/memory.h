#pragma once

#include <cstddef>
#include <cstdint>

namespace cuda_emulation {

/// The addresses that can be device memory, for all devices.
inline constexpr size_t kArenaBytes = size_t{32} << 30;
const char *ArenaBegin();
bool IsDeviceMemory(const void *address);
/// Whether an address lies in a block of cudaHostAlloc's.
bool IsPinned(const void *address);

/// Null where the device has no more. Filled with 0xff, which is NaN in every floating-point type; an address is not
/// used again as long as there are others.
void *AllocateDeviceMemory(int device, size_t bytes);
/// False for what isn't allocated.
bool FreeDeviceMemory(void *data);
size_t FreeDeviceBytes(int device);

void *AllocatePinned(size_t bytes);
bool FreePinned(void *data);

/// Whoever touches device memory in place of the GPU does so within such a scope.
class DeviceMemoryScope {
public:
    DeviceMemoryScope();
    ~DeviceMemoryScope();
    DeviceMemoryScope(const DeviceMemoryScope &) = delete;
    DeviceMemoryScope &operator=(const DeviceMemoryScope &) = delete;
};

}  // namespace cuda_emulation
