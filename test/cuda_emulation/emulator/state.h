#pragma once

#include <mutex>

#include <cuda_runtime_api.h>

namespace cuda_emulation {

/// Held by every call of the runtime: the host's threads take turns, and the grid runs within the call of one of them.
std::recursive_mutex &Mutex();
using Lock = std::lock_guard<std::recursive_mutex>;

inline constexpr int kNumDevices = 2;

/// What the next cudaGetLastError gives, and what a kernel has done to the device: then every call fails.
extern cudaError_t last_error;
extern cudaError_t device_error;

/// Notes and returns an error.
cudaError_t Result(cudaError_t error);
/// The device's error, if it has one.
inline cudaError_t DeviceResult() {
    return Result(device_error);
}

int CurrentDevice();

}  // namespace cuda_emulation
