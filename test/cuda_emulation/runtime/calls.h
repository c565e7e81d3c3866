#pragma once

#include <driver_types.h>
#include <mutex>

#include "test/cuda_emulation/runtime/report.h"
#include "test/cuda_emulation/runtime/scheduler.h"
#include "test/cuda_emulation/runtime/stream.h"

namespace cuda_emulation {

/// Remembers an error for the thread's cudaGetLastError and returns it.
cudaError_t Return(cudaError_t error);
cudaError_t LastError();
void ForgetLastError();

/// What every call begins with: one thread at a time, and nothing works after a kernel has failed.
#define CUDA_EMULATION_CALL()                                                                          \
    const std::lock_guard<std::recursive_mutex> cuda_emulation_lock(::cuda_emulation::RuntimeMutex()); \
    if (::cuda_emulation::StickyError() != cudaSuccess) {                                              \
        return ::cuda_emulation::Return(::cuda_emulation::StickyError());                              \
    }                                                                                                  \
    static_assert(true)

/// What a call ends with that has run kernels.
inline cudaError_t Finish() {
    return Return(StickyError());
}

/// Waiting isn't allowed for a stream that captures: it would wait forever. The capture is lost.
inline cudaError_t RefuseWhileCapturing(const StreamPtr &stream) {
    if (stream->capture != nullptr) {
        stream->capture->is_valid = false;
        return cudaErrorStreamCaptureUnsupported;
    }
    return IsCaptureInTheWay() ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

}  // namespace cuda_emulation
