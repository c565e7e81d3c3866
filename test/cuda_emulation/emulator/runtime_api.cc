// The calls of the CUDA runtime that have to do with devices, memory, errors and launches.

#include <cstring>
#include <map>
#include <string>
#include <utility>

#include <cuda_runtime.h>

#include "test/cuda_emulation/emulator/block.h"
#include "test/cuda_emulation/emulator/defects.h"
#include "test/cuda_emulation/emulator/memory.h"
#include "test/cuda_emulation/emulator/options.h"
#include "test/cuda_emulation/emulator/shadow.h"
#include "test/cuda_emulation/emulator/state.h"
#include "test/cuda_emulation/emulator/stream.h"

namespace cuda_emulation {
namespace {

thread_local int current_device = 0;
std::map<const void *, int> shared_limits;  // of kernels that asked for more than 48 KiB

void CopyNow(void *to, const void *from, size_t bytes) {
    const DeviceMemoryScope scope;
    if (IsDeviceMemory(to) && IsDeviceMemory(from)) {
        ShadowCopy(to, from, bytes);
    } else if (IsDeviceMemory(from)) {
        ShadowRead(from, bytes, "a copy to the host");
    } else {
        ShadowWrite(to, bytes, "a copy from the host");
    }
    std::memmove(to, from, bytes);
}

bool IsRightKind(const void *to, const void *from, cudaMemcpyKind kind) {
    const bool to_device = IsDeviceMemory(to), from_device = IsDeviceMemory(from);
    switch (kind) {
        case cudaMemcpyHostToDevice:
            return to_device && !from_device;
        case cudaMemcpyDeviceToHost:
            return !to_device && from_device;
        case cudaMemcpyDeviceToDevice:
            return to_device && from_device;
        default:
            return to_device || from_device;
    }
}

bool IsLegal(const cudaLaunchConfig_t &config) {
    const dim3 grid = config.gridDim, block = config.blockDim;
    return grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.x <= 0x7fffffffU && grid.y <= 65535 && grid.z <= 65535 &&
           block.x > 0 && block.y > 0 && block.z > 0 && block.x <= 1024 && block.y <= 1024 && block.z <= 64 &&
           static_cast<uint64_t>(block.x) * block.y * block.z <= 1024;
}

}  // namespace

cudaError_t last_error = cudaSuccess;
cudaError_t device_error = cudaSuccess;

std::recursive_mutex &Mutex() {
    static auto &mutex = *new std::recursive_mutex;
    return mutex;
}

cudaError_t Result(cudaError_t error) {
    if (error != cudaSuccess) {
        last_error = error;
    }
    return error;
}

int CurrentDevice() {
    return current_device;
}

cudaError_t Launch(const cudaLaunchConfig_t &config, const void *kernel, std::shared_ptr<const QueuedKernel> queued) {
    const Lock lock(Mutex());
    if (device_error != cudaSuccess) {
        return DeviceResult();
    }
    if (!IsLegal(config)) {
        return Result(cudaErrorInvalidConfiguration);
    }
    const auto limit = shared_limits.find(kernel);
    if (config.dynamicSmemBytes > (limit == shared_limits.end() ? size_t{48} * 1024 : limit->second)) {
        return Result(cudaErrorInvalidValue);
    }
    if (QueueOf(config.stream)->device != current_device) {
        return Result(cudaErrorInvalidResourceHandle);
    }
    Submit(config.stream, [queued = std::move(queued), grid = config.gridDim, block = config.blockDim,
                           shared = config.dynamicSmemBytes] {
        const DeviceMemoryScope scope;
        RunGrid(*queued, grid, block, shared);
    });
    return DeviceResult();
}

}  // namespace cuda_emulation

using namespace cuda_emulation;  // NOLINT(google-build-using-namespace): the runtime's calls are all of this file

extern "C" {

cudaError_t cudaGetLastError() {
    const Lock lock(Mutex());
    return std::exchange(last_error, device_error);
}
const char *cudaGetErrorName(cudaError_t error) {
    switch (error) {
        case cudaSuccess:
            return "cudaSuccess";
        case cudaErrorInvalidValue:
            return "cudaErrorInvalidValue";
        case cudaErrorMemoryAllocation:
            return "cudaErrorMemoryAllocation";
        case cudaErrorInvalidConfiguration:
            return "cudaErrorInvalidConfiguration";
        case cudaErrorInvalidDevice:
            return "cudaErrorInvalidDevice";
        case cudaErrorInvalidResourceHandle:
            return "cudaErrorInvalidResourceHandle";
        case cudaErrorLaunchFailure:
            return "cudaErrorLaunchFailure";
        case cudaErrorNotReady:
            return "cudaErrorNotReady";
        case cudaErrorStreamCaptureUnsupported:
            return "cudaErrorStreamCaptureUnsupported";
        case cudaErrorStreamCaptureInvalidated:
            return "cudaErrorStreamCaptureInvalidated";
        default:
            return "cudaErrorUnknown";
    }
}
const char *cudaGetErrorString(cudaError_t error) {
    switch (error) {
        case cudaSuccess:
            return "no error";
        case cudaErrorLaunchFailure:
            return "a kernel did something that it must not (emulated; see the error output)";
        case cudaErrorStreamCaptureUnsupported:
            return "operation not permitted when stream is capturing (emulated)";
        default:
            return "emulated";
    }
}

cudaError_t cudaGetDeviceCount(int *count) {
    *count = kNumDevices;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device) {
    *device = current_device;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
    const Lock lock(Mutex());
    if (device < 0 || device >= kNumDevices) {
        return Result(cudaErrorInvalidDevice);
    }
    current_device = device;
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int /*device*/) {
    switch (attribute) {
        case cudaDevAttrMultiProcessorCount:
            // Few, so that grid-stride loops go around in small tests.
            *value = 2;
            return cudaSuccess;
        case cudaDevAttrComputeCapabilityMajor:
            *value = 9;
            return cudaSuccess;
        case cudaDevAttrComputeCapabilityMinor:
            *value = 0;
            return cudaSuccess;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin:
            *value = static_cast<int>(GetOptions().shared_bytes);
            return cudaSuccess;
        default:
            return Result(cudaErrorInvalidValue);
    }
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
    const Lock lock(Mutex());
    *free = FreeDeviceBytes(current_device);
    *total = GetOptions().device_bytes;
    return DeviceResult();
}
cudaError_t cudaMalloc(void **data, size_t bytes) {
    const Lock lock(Mutex());
    *data = AllocateDeviceMemory(current_device, bytes);
    return *data == nullptr ? Result(cudaErrorMemoryAllocation) : DeviceResult();
}
cudaError_t cudaFree(void *data) {
    const Lock lock(Mutex());
    if (data == nullptr) {
        return cudaSuccess;
    }
    RunEverything();
    if (!FreeDeviceMemory(data)) {
        ReportDefect("cudaFree of what isn't allocated", __builtin_return_address(0));
        return Result(cudaErrorInvalidValue);
    }
    return DeviceResult();
}
cudaError_t cudaHostAlloc(void **data, size_t bytes, unsigned /*flags*/) {
    const Lock lock(Mutex());
    *data = AllocatePinned(bytes);
    return cudaSuccess;
}
cudaError_t cudaFreeHost(void *data) {
    const Lock lock(Mutex());
    RunEverything();
    return FreePinned(data) ? cudaSuccess : Result(cudaErrorInvalidValue);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    const Lock lock(Mutex());
    if (!IsRightKind(to, from, kind)) {
        return Result(cudaErrorInvalidValue);
    }
    const bool is_pageable = (!IsDeviceMemory(from) && !IsPinned(from)) || (!IsDeviceMemory(to) && !IsPinned(to));
    if (is_pageable && !MayWait(QueueOf(stream))) {
        return Result(cudaErrorStreamCaptureUnsupported);
    }
    if (!IsDeviceMemory(from) && !IsPinned(from)) {
        // The driver takes a copy at once.
        Submit(stream, [to, copy = std::string(static_cast<const char *>(from), bytes)] {
            CopyNow(to, copy.data(), copy.size());
        });
    } else {
        Submit(stream, [to, from, bytes] { CopyNow(to, from, bytes); });
    }
    if (!IsDeviceMemory(to) && !IsPinned(to)) {
        RunAll(QueueOf(stream));  // to memory that isn't pinned it waits
    }
    return DeviceResult();
}
cudaError_t cudaMemsetAsync(void *data, int value, size_t bytes, cudaStream_t stream) {
    const Lock lock(Mutex());
    Submit(stream, [data, value, bytes] {
        const DeviceMemoryScope scope;
        ShadowWrite(data, bytes, "cudaMemsetAsync");
        std::memset(data, value, bytes);
    });
    return DeviceResult();
}

cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute attribute, int value) {
    const Lock lock(Mutex());
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) {
        return cudaSuccess;
    }
    if (value < 0 || static_cast<size_t>(value) > GetOptions().shared_bytes) {
        return Result(cudaErrorInvalidValue);
    }
    shared_limits[kernel] = value;
    return cudaSuccess;
}

}  // extern "C"
