#pragma once

#include <cuda_runtime_api.h>

namespace infini_train::cuda {

/// As many devices as a Device's index can name.
inline constexpr int kMaxDevices = 128;

/// The device of this thread's next calls.
int CurrentDeviceIndex();

/// The stream of this thread's current device on which its kernels and copies are queued; null for the device's default
/// stream.
cudaStream_t CurrentStream();
/// The same for any device.
cudaStream_t CurrentStreamOf(int index);
void SetCurrentStreamOf(int index, cudaStream_t stream);

/// How many multiprocessors the device has and how much shared memory a block may ask for; the devices of a process are
/// taken to be alike.
int NumMultiprocessors();
int MaxSharedBytes();

}  // namespace infini_train::cuda
