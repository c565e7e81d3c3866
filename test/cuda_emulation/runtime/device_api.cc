// cudart's calls about devices and errors.

#include <cuda_runtime_api.h>

#include "test/cuda_emulation/runtime/calls.h"
#include "test/cuda_emulation/runtime/memory.h"
#include "test/cuda_emulation/runtime/options.h"

namespace cuda_emulation {
namespace {

thread_local cudaError_t last_error = cudaSuccess;

// Of an H100, but for the few multiprocessors.
cudaError_t Attribute(cudaDeviceAttr attribute, int *value) {
    switch (attribute) {
        case cudaDevAttrMultiProcessorCount:
            *value = CurrentOptions().multiprocessors;
            return cudaSuccess;
        case cudaDevAttrComputeCapabilityMajor:
            *value = 9;
            return cudaSuccess;
        case cudaDevAttrComputeCapabilityMinor:
            *value = 0;
            return cudaSuccess;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin:
            *value = CurrentOptions().shared_bytes;
            return cudaSuccess;
        case cudaDevAttrMaxSharedMemoryPerBlock:
            *value = 48 * 1024;
            return cudaSuccess;
        case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
            *value = 228 * 1024;
            return cudaSuccess;
        case cudaDevAttrMaxThreadsPerBlock:
            *value = 1024;
            return cudaSuccess;
        case cudaDevAttrMaxThreadsPerMultiProcessor:
            *value = 2048;
            return cudaSuccess;
        case cudaDevAttrWarpSize:
            *value = 32;
            return cudaSuccess;
        case cudaDevAttrL2CacheSize:
            *value = 50 << 20;
            return cudaSuccess;
        case cudaDevAttrMemoryPoolsSupported:
            *value = 0;
            return cudaSuccess;
        default:
            return cudaErrorInvalidValue;
    }
}

}  // namespace

cudaError_t Return(cudaError_t error) {
    if (error != cudaSuccess) {
        last_error = error;
    }
    return error;
}

cudaError_t LastError() {
    return StickyError() != cudaSuccess ? StickyError() : last_error;
}

void ForgetLastError() {
    last_error = cudaSuccess;
}

}  // namespace cuda_emulation

using namespace cuda_emulation;  // NOLINT(google-build-using-namespace)

extern "C" {

cudaError_t cudaGetLastError() {
    const cudaError_t error = LastError();
    ForgetLastError();
    return error;
}

cudaError_t cudaPeekAtLastError() {
    return LastError();
}

const char *cudaGetErrorName(cudaError_t error) {
#define CUDA_EMULATION_NAME(name) \
    case name:                    \
        return #name;
    switch (error) {
        CUDA_EMULATION_NAME(cudaSuccess)
        CUDA_EMULATION_NAME(cudaErrorInvalidValue)
        CUDA_EMULATION_NAME(cudaErrorMemoryAllocation)
        CUDA_EMULATION_NAME(cudaErrorInvalidConfiguration)
        CUDA_EMULATION_NAME(cudaErrorInvalidDevice)
        CUDA_EMULATION_NAME(cudaErrorInvalidResourceHandle)
        CUDA_EMULATION_NAME(cudaErrorNotReady)
        CUDA_EMULATION_NAME(cudaErrorIllegalAddress)
        CUDA_EMULATION_NAME(cudaErrorMisalignedAddress)
        CUDA_EMULATION_NAME(cudaErrorIllegalInstruction)
        CUDA_EMULATION_NAME(cudaErrorLaunchFailure)
        CUDA_EMULATION_NAME(cudaErrorLaunchTimeout)
        CUDA_EMULATION_NAME(cudaErrorLaunchOutOfResources)
        CUDA_EMULATION_NAME(cudaErrorStreamCaptureUnsupported)
        CUDA_EMULATION_NAME(cudaErrorStreamCaptureInvalidated)
        CUDA_EMULATION_NAME(cudaErrorStreamCaptureUnmatched)
        CUDA_EMULATION_NAME(cudaErrorStreamCaptureUnjoined)
        CUDA_EMULATION_NAME(cudaErrorStreamCaptureIsolation)
        CUDA_EMULATION_NAME(cudaErrorStreamCaptureImplicit)
        CUDA_EMULATION_NAME(cudaErrorCapturedEvent)
        CUDA_EMULATION_NAME(cudaErrorIllegalState)
        default:
            return "cudaErrorUnknown";
    }
#undef CUDA_EMULATION_NAME
}

const char *cudaGetErrorString(cudaError_t error) {
    switch (error) {
        case cudaSuccess:
            return "no error";
        case cudaErrorInvalidValue:
            return "invalid argument";
        case cudaErrorMemoryAllocation:
            return "out of memory";
        case cudaErrorInvalidConfiguration:
            return "invalid configuration argument";
        case cudaErrorInvalidDevice:
            return "invalid device ordinal";
        case cudaErrorInvalidResourceHandle:
            return "invalid resource handle";
        case cudaErrorNotReady:
            return "device not ready";
        case cudaErrorIllegalAddress:
            return "an illegal memory access was encountered";
        case cudaErrorMisalignedAddress:
            return "misaligned address";
        case cudaErrorLaunchOutOfResources:
            return "too many resources requested for launch";
        case cudaErrorLaunchFailure:
            return "unspecified launch failure";
        default:
            return "an error of the emulated device";
    }
}

cudaError_t cudaDriverGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count) {
    *count = kNumDevices;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device) {
    *device = CurrentDevice();
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
    if (device < 0 || device >= kNumDevices) {
        return Return(cudaErrorInvalidDevice);
    }
    SetCurrentDevice(device);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device) {
    return Return(device < 0 || device >= kNumDevices ? cudaErrorInvalidDevice : Attribute(attribute, value));
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
    CUDA_EMULATION_CALL();
    for (const StreamPtr &stream : AllStreams()) {
        if (stream->device == CurrentDevice() && stream->capture != nullptr) {
            stream->capture->is_valid = false;
            return Return(cudaErrorStreamCaptureUnsupported);
        }
    }
    DrainDevice(CurrentDevice());
    return Finish();
}

}  // extern "C"
