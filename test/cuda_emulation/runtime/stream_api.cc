// cudart's calls about streams and events.

#include <chrono>

#include <cuda_runtime_api.h>

#include "test/cuda_emulation/runtime/calls.h"

using namespace cuda_emulation;  // NOLINT(google-build-using-namespace)

namespace {

Event *Of(cudaEvent_t handle) {
    return reinterpret_cast<Event *>(handle);
}

double Now() {
    using Clock = std::chrono::steady_clock;
    return std::chrono::duration<double, std::milli>(Clock::now().time_since_epoch()).count();
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int /*priority*/) {
    CUDA_EMULATION_CALL();
    *stream = NewStream((flags & cudaStreamNonBlocking) == 0);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream) {
    return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    CUDA_EMULATION_CALL();
    return DeleteStream(stream) ? Finish() : Return(cudaErrorInvalidResourceHandle);
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
    CUDA_EMULATION_CALL();
    const StreamPtr stream = FindStream(handle);
    if (stream == nullptr) {
        return Return(cudaErrorInvalidResourceHandle);
    }
    if (const cudaError_t error = RefuseWhileCapturing(stream); error != cudaSuccess) {
        return Return(error);
    }
    Drain(stream);
    return Finish();
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
    CUDA_EMULATION_CALL();
    const StreamPtr stream = FindStream(handle);
    if (stream == nullptr) {
        return Return(cudaErrorInvalidResourceHandle);
    }
    if (const cudaError_t error = RefuseWhileCapturing(stream); error != cudaSuccess) {
        return Return(error);
    }
    const bool is_done = HasDone(stream, stream->issued);
    return StickyError() != cudaSuccess ? Finish() : Return(is_done ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned /*flags*/) {
    CUDA_EMULATION_CALL();
    const StreamPtr stream = FindStream(handle);
    Event *const event = Of(event_handle);
    if (stream == nullptr || event == nullptr) {
        return Return(cudaErrorInvalidResourceHandle);
    }
    if (event->stream == nullptr) {
        return cudaSuccess;  // it was never recorded
    }
    if (event->capture != nullptr) {
        if (stream->capture != nullptr && stream->capture != event->capture) {
            return Return(cudaErrorStreamCaptureIsolation);
        }
        if (stream->capture == nullptr) {
            stream->capture = event->capture;
            stream->captured = 0;
            stream->is_joined = false;
        }
        event->stream->is_joined |= event->stream->captured == event->sequence;
        return cudaSuccess;
    }
    if (stream->capture != nullptr) {
        return Return(cudaErrorStreamCaptureIsolation);
    }
    const StreamPtr other = event->stream;
    if (other != stream) {
        Submit(stream, [other, sequence = event->sequence] { RunUntil(other.get(), sequence); });
    }
    return Finish();
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    CUDA_EMULATION_CALL();
    auto *const made = new Event;
    made->has_timing = (flags & cudaEventDisableTiming) == 0;
    *event = reinterpret_cast<cudaEvent_t>(made);
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    const std::lock_guard<std::recursive_mutex> lock(RuntimeMutex());
    delete Of(event);
    return Finish();
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
    CUDA_EMULATION_CALL();
    const StreamPtr stream = FindStream(stream_handle);
    Event *const event = Of(handle);
    if (stream == nullptr || event == nullptr) {
        return Return(cudaErrorInvalidResourceHandle);
    }
    event->stream = stream;
    event->capture = stream->capture;
    if (stream->capture != nullptr) {
        event->sequence = stream->captured;
        return cudaSuccess;
    }
    event->milliseconds = std::make_shared<double>(0);
    Submit(stream, [time = event->milliseconds] { *time = Now(); });
    event->sequence = stream->issued;
    return Finish();
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
    CUDA_EMULATION_CALL();
    const Event *const event = Of(handle);
    if (event == nullptr) {
        return Return(cudaErrorInvalidResourceHandle);
    }
    if (event->capture != nullptr) {
        return Return(cudaErrorCapturedEvent);
    }
    const bool is_done = event->stream == nullptr || HasDone(event->stream, event->sequence);
    return StickyError() != cudaSuccess ? Finish() : Return(is_done ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
    CUDA_EMULATION_CALL();
    const Event *const event = Of(handle);
    if (event == nullptr) {
        return Return(cudaErrorInvalidResourceHandle);
    }
    if (event->capture != nullptr) {
        return Return(cudaErrorCapturedEvent);
    }
    if (event->stream != nullptr) {
        RunUntil(event->stream.get(), event->sequence);
    }
    return Finish();
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
    CUDA_EMULATION_CALL();
    for (const Event *const event : {Of(start), Of(end)}) {
        if (event == nullptr || !event->has_timing || event->milliseconds == nullptr) {
            return Return(cudaErrorInvalidResourceHandle);
        }
        if (event->stream->done < event->sequence) {
            return Return(cudaErrorNotReady);
        }
    }
    *milliseconds = static_cast<float>(*Of(end)->milliseconds - *Of(start)->milliseconds);
    return cudaSuccess;
}

}  // extern "C"
