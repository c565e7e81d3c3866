// cudart's calls about memory.

#include <cstring>
#include <memory>
#include <string>

#include <cuda_runtime_api.h>

#include "test/cuda_emulation/checker/checker.h"
#include "test/cuda_emulation/runtime/calls.h"
#include "test/cuda_emulation/runtime/memory.h"

namespace cuda_emulation {
namespace {

// Whether the two ends are where the kind says, and all of the device's in an allocation.
bool Fits(const void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    const bool to_device = IsDevice(to), from_device = IsDevice(from);
    if ((to_device && !IsAllocated(to, bytes)) || (from_device && !IsAllocated(from, bytes))) {
        return false;
    }
    switch (kind) {
        case cudaMemcpyHostToHost:
            return !to_device && !from_device;
        case cudaMemcpyHostToDevice:
            return to_device && !from_device;
        case cudaMemcpyDeviceToHost:
            return !to_device && from_device;
        case cudaMemcpyDeviceToDevice:
            return to_device && from_device;
        default:
            return true;
    }
}

void CopyNow(void *to, const void *from, size_t bytes) {
    const DeviceScope scope;
    const bool to_device = IsDevice(to), from_device = IsDevice(from);
    if (to_device && from_device) {
        checker::OnDeviceCopy(to, from, bytes);
    } else if (from_device) {
        checker::OnHostRead(from, bytes, "copied to the host");
    } else if (to_device) {
        checker::OnHostWrite(to, bytes);
    }
    std::memmove(to, from, bytes);
}

cudaError_t CopyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t handle) {
    const StreamPtr stream = FindStream(handle);
    if (stream == nullptr) {
        return cudaErrorInvalidResourceHandle;
    }
    if (bytes == 0) {
        return cudaSuccess;
    }
    if (!Fits(to, from, bytes, kind)) {
        return cudaErrorInvalidValue;
    }
    const bool to_waits = !IsDevice(to) && !IsPinned(to);
    const bool from_waits = !IsDevice(from) && !IsPinned(from);
    if (stream->capture != nullptr && (to_waits || from_waits)) {
        stream->capture->is_valid = false;
        return cudaErrorStreamCaptureUnsupported;
    }
    if (from_waits) {
        // Pageable memory is staged: it may change as soon as the call has returned.
        const auto staged = std::make_shared<std::string>(static_cast<const char *>(from), bytes);
        Submit(stream, [=] { CopyNow(to, staged->data(), bytes); });
    } else {
        Submit(stream, [=] { CopyNow(to, from, bytes); });
    }
    if (to_waits) {
        Drain(stream);
    }
    return StickyError();
}

cudaError_t FillAsync(void *data, int value, size_t bytes, cudaStream_t handle) {
    const StreamPtr stream = FindStream(handle);
    if (stream == nullptr) {
        return cudaErrorInvalidResourceHandle;
    }
    if (bytes == 0) {
        return cudaSuccess;
    }
    if (!IsDevice(data) || !IsAllocated(data, bytes)) {
        return cudaErrorInvalidValue;
    }
    Submit(stream, [=] {
        const DeviceScope scope;
        checker::OnHostWrite(data, bytes);
        std::memset(data, value, bytes);
    });
    return StickyError();
}

}  // namespace
}  // namespace cuda_emulation

using namespace cuda_emulation;  // NOLINT(google-build-using-namespace)

extern "C" {

cudaError_t cudaMalloc(void **data, size_t bytes) {
    CUDA_EMULATION_CALL();
    if (IsCaptureInTheWay()) {
        return Return(cudaErrorStreamCaptureUnsupported);
    }
    return Return(AllocateDevice(CurrentDevice(), data, bytes));
}

cudaError_t cudaFree(void *data) {
    const std::lock_guard<std::recursive_mutex> lock(RuntimeMutex());
    if (data == nullptr) {
        return Finish();
    }
    if (StickyError() == cudaSuccess) {
        DrainAll();
    }
    const cudaError_t error = FreeDevice(data);
    return Return(StickyError() != cudaSuccess ? StickyError() : error);
}

cudaError_t cudaHostAlloc(void **data, size_t bytes, unsigned /*flags*/) {
    CUDA_EMULATION_CALL();
    return Return(AllocatePinned(data, bytes));
}

cudaError_t cudaMallocHost(void **data, size_t bytes) {
    return cudaHostAlloc(data, bytes, 0);
}

cudaError_t cudaFreeHost(void *data) {
    const std::lock_guard<std::recursive_mutex> lock(RuntimeMutex());
    if (data == nullptr) {
        return Finish();
    }
    if (StickyError() == cudaSuccess) {
        DrainAll();
    }
    return Return(FreePinned(data));
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
    CUDA_EMULATION_CALL();
    DeviceMemoryInfo(CurrentDevice(), free, total);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    CUDA_EMULATION_CALL();
    return Return(CopyAsync(to, from, bytes, kind, stream));
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    CUDA_EMULATION_CALL();
    const cudaError_t error = CopyAsync(to, from, bytes, kind, nullptr);
    if (error != cudaSuccess) {
        return Return(error);
    }
    Drain(FindStream(nullptr));
    return Finish();
}

cudaError_t cudaMemsetAsync(void *data, int value, size_t bytes, cudaStream_t stream) {
    CUDA_EMULATION_CALL();
    return Return(FillAsync(data, value, bytes, stream));
}

cudaError_t cudaMemset(void *data, int value, size_t bytes) {
    return cudaMemsetAsync(data, value, bytes, nullptr);
}

}  // extern "C"
