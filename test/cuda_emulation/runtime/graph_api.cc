// cudart's calls about captures and graphs.

#include <cuda_runtime_api.h>

#include "test/cuda_emulation/runtime/calls.h"

using namespace cuda_emulation;  // NOLINT(google-build-using-namespace)

namespace {

using GraphPtr = std::shared_ptr<Graph>;

GraphPtr *Of(cudaGraph_t handle) {
    return reinterpret_cast<GraphPtr *>(handle);
}

GraphPtr *Of(cudaGraphExec_t handle) {
    return reinterpret_cast<GraphPtr *>(handle);
}

// Takes all streams out of the capture; whether each had been waited for.
bool LeaveCapture(const GraphPtr &graph) {
    bool all_joined = true;
    for (const StreamPtr &stream : AllStreams()) {
        if (stream->capture == graph) {
            all_joined = all_joined && (stream->is_origin || stream->is_joined);
            stream->capture = nullptr;
            stream->is_origin = false;
        }
    }
    return all_joined;
}

}  // namespace

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
    CUDA_EMULATION_CALL();
    const StreamPtr stream = FindStream(handle);
    if (stream == nullptr) {
        return Return(cudaErrorInvalidResourceHandle);
    }
    if (handle == nullptr) {
        return Return(cudaErrorStreamCaptureUnsupported);  // never the default stream
    }
    if (stream->capture != nullptr) {
        return Return(cudaErrorIllegalState);
    }
    stream->capture = std::make_shared<Graph>();
    stream->is_origin = true;
    stream->captured = 0;
    stream->mode = mode;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *graph) {
    CUDA_EMULATION_CALL();
    *graph = nullptr;
    const StreamPtr stream = FindStream(handle);
    if (stream == nullptr || stream->capture == nullptr) {
        return Return(cudaErrorIllegalState);
    }
    if (!stream->is_origin) {
        return Return(cudaErrorStreamCaptureUnmatched);
    }
    const GraphPtr captured = stream->capture;
    const bool all_joined = LeaveCapture(captured);
    if (!captured->is_valid) {
        return Return(cudaErrorStreamCaptureInvalidated);
    }
    if (!all_joined) {
        return Return(cudaErrorStreamCaptureUnjoined);
    }
    *graph = reinterpret_cast<cudaGraph_t>(new GraphPtr(captured));
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus *status) {
    CUDA_EMULATION_CALL();
    const StreamPtr stream = FindStream(handle);
    if (stream == nullptr) {
        return Return(cudaErrorInvalidResourceHandle);
    }
    *status = stream->capture == nullptr  ? cudaStreamCaptureStatusNone
              : stream->capture->is_valid ? cudaStreamCaptureStatusActive
                                          : cudaStreamCaptureStatusInvalidated;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long /*flags*/) {
    CUDA_EMULATION_CALL();
    *executable = reinterpret_cast<cudaGraphExec_t>(new GraphPtr(*Of(graph)));
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t handle) {
    CUDA_EMULATION_CALL();
    const StreamPtr stream = FindStream(handle);
    if (stream == nullptr || executable == nullptr) {
        return Return(cudaErrorInvalidResourceHandle);
    }
    Submit(stream, [graph = *Of(executable)] {
        for (const Work &work : graph->nodes) {
            work();
        }
    });
    return Finish();
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete Of(graph);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
    delete Of(executable);
    return cudaSuccess;
}

}  // extern "C"
