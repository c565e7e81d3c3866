#include "test/cuda_emulation/emulator/stream.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "test/cuda_emulation/emulator/options.h"
#include "test/cuda_emulation/emulator/state.h"

namespace cuda_emulation {
namespace {

StreamQueue *DefaultQueue(int device) {
    static StreamQueue queues[kNumDevices];
    queues[device].device = device;
    return &queues[device];
}

std::set<StreamQueue *> &Queues() {
    static auto &queues = *new std::set<StreamQueue *>;
    return queues;
}

bool IsDefault(const StreamQueue *queue) {
    return queue == DefaultQueue(queue->device);
}

// The default stream and those that aren't "non-blocking" wait for each other.
void RunOrderedWith(StreamQueue *queue) {
    if (IsDefault(queue)) {
        for (StreamQueue *other : Queues()) {
            if (other->blocks_default && other->device == queue->device) {
                RunAll(other);
            }
        }
    } else if (queue->blocks_default) {
        RunAll(DefaultQueue(queue->device));
    }
}

EventMark *MarkOf(cudaEvent_t event) {
    return reinterpret_cast<EventMark *>(event);
}

double Now() {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

StreamQueue *QueueOf(cudaStream_t stream) {
    return stream == nullptr || stream == cudaStreamLegacy ? DefaultQueue(CurrentDevice())
                                                           : reinterpret_cast<StreamQueue *>(stream);
}

void Submit(cudaStream_t stream, std::function<void()> work) {
    StreamQueue *const queue = QueueOf(stream);
    if (queue->capture != nullptr) {
        queue->capture->work.push_back(std::move(work));
        return;
    }
    if (!GetOptions().lazy_streams) {
        RunOrderedWith(queue);
    }
    queue->work.push_back(std::move(work));
    ++queue->queued;
    if (!GetOptions().lazy_streams) {
        RunAll(queue);
    }
}

void RunUntil(StreamQueue *queue, uint64_t position) {
    RunOrderedWith(queue);
    while (queue->done < position && !queue->work.empty()) {
        const std::function<void()> next = std::move(queue->work.front());
        queue->work.pop_front();
        ++queue->done;
        next();
    }
}

void RunAll(StreamQueue *queue) {
    if (queue->done < queue->queued) {
        RunUntil(queue, queue->queued);
    }
}

void RunEverything() {
    for (int device = 0; device < kNumDevices; ++device) {
        RunAll(DefaultQueue(device));
    }
    for (StreamQueue *queue : Queues()) {
        RunAll(queue);
    }
}

bool MayWait(StreamQueue *queue) {
    if (queue->capture == nullptr) {
        return true;
    }
    queue->capture->is_valid = false;
    return false;
}

}  // namespace cuda_emulation

using namespace cuda_emulation;  // NOLINT(google-build-using-namespace): the runtime's calls are all of this file

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int /*priority*/) {
    const Lock lock(Mutex());
    auto *const queue = new StreamQueue;
    queue->blocks_default = (flags & cudaStreamNonBlocking) == 0;
    queue->device = CurrentDevice();
    Queues().insert(queue);
    *stream = reinterpret_cast<cudaStream_t>(queue);
    return DeviceResult();
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    const Lock lock(Mutex());
    StreamQueue *const queue = QueueOf(stream);
    if (Queues().erase(queue) == 0) {
        return Result(cudaErrorInvalidResourceHandle);
    }
    RunAll(queue);
    delete queue;
    return DeviceResult();
}
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    const Lock lock(Mutex());
    if (!MayWait(QueueOf(stream))) {
        return Result(cudaErrorStreamCaptureUnsupported);
    }
    RunUntil(QueueOf(stream), QueueOf(stream)->queued);
    return DeviceResult();
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
    const Lock lock(Mutex());
    StreamQueue *const queue = QueueOf(stream);
    if (!MayWait(queue)) {
        return Result(cudaErrorStreamCaptureUnsupported);
    }
    if (queue->done == queue->queued) {
        return DeviceResult();
    }
    // Not yet, but when it is asked again.
    RunAll(queue);
    return Result(device_error != cudaSuccess ? device_error : cudaErrorNotReady);
}
cudaError_t cudaDeviceSynchronize() {
    const Lock lock(Mutex());
    RunEverything();
    return DeviceResult();
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned /*flags*/) {
    *event = reinterpret_cast<cudaEvent_t>(new EventMark);
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    const Lock lock(Mutex());
    delete MarkOf(event);
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    const Lock lock(Mutex());
    EventMark *const mark = MarkOf(event);
    StreamQueue *const queue = QueueOf(stream);
    mark->stream = queue;
    mark->capture = queue->capture;
    if (queue->capture == nullptr) {
        Submit(stream, [at = mark->milliseconds] { *at = Now(); });
        mark->position = queue->queued;
    }
    return DeviceResult();
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    const Lock lock(Mutex());
    const EventMark *const mark = MarkOf(event);
    if (mark->capture != nullptr) {
        return Result(cudaErrorCapturedEvent);
    }
    if (mark->stream != nullptr) {
        RunUntil(mark->stream, mark->position);
    }
    return DeviceResult();
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
    const Lock lock(Mutex());
    const EventMark *const mark = MarkOf(event);
    if (mark->capture != nullptr) {
        return Result(cudaErrorCapturedEvent);
    }
    if (mark->stream == nullptr || mark->stream->done >= mark->position) {
        return DeviceResult();
    }
    RunUntil(mark->stream, mark->position);
    return Result(device_error != cudaSuccess ? device_error : cudaErrorNotReady);
}
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
    const Lock lock(Mutex());
    *milliseconds = static_cast<float>(*MarkOf(end)->milliseconds - *MarkOf(start)->milliseconds);
    return DeviceResult();
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
    const Lock lock(Mutex());
    const EventMark *const mark = MarkOf(event);
    if (mark->capture != nullptr) {
        // The stream joins the capture, in whose order its work is then.
        QueueOf(stream)->capture = mark->capture;
        return cudaSuccess;
    }
    if (mark->stream != nullptr && mark->stream != QueueOf(stream)) {
        Submit(stream, [from = mark->stream, position = mark->position] { RunUntil(from, position); });
    }
    return DeviceResult();
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode /*mode*/) {
    const Lock lock(Mutex());
    StreamQueue *const queue = QueueOf(stream);
    if (stream == nullptr || queue->capture != nullptr) {
        return Result(stream == nullptr ? cudaErrorStreamCaptureImplicit : cudaErrorIllegalState);
    }
    queue->capture = std::make_shared<Capture>();
    queue->began_capture = true;
    return DeviceResult();
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status) {
    const Lock lock(Mutex());
    const auto &capture = QueueOf(stream)->capture;
    *status = capture == nullptr  ? cudaStreamCaptureStatusNone
              : capture->is_valid ? cudaStreamCaptureStatusActive
                                  : cudaStreamCaptureStatusInvalidated;
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    const Lock lock(Mutex());
    StreamQueue *const queue = QueueOf(stream);
    *graph = nullptr;
    if (!queue->began_capture) {
        return Result(cudaErrorIllegalState);
    }
    const std::shared_ptr<Capture> capture = std::exchange(queue->capture, nullptr);
    queue->began_capture = false;
    for (StreamQueue *other : Queues()) {
        if (other->capture == capture) {
            other->capture = nullptr;
        }
    }
    if (!capture->is_valid) {
        return Result(cudaErrorStreamCaptureInvalidated);
    }
    *graph = reinterpret_cast<cudaGraph_t>(new Capture(std::move(*capture)));
    return DeviceResult();
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph, unsigned long long /*flags*/) {
    *executable = reinterpret_cast<cudaGraphExec_t>(
        new std::shared_ptr<const Capture>(new Capture(*reinterpret_cast<Capture *>(graph))));
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete reinterpret_cast<Capture *>(graph);
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
    delete reinterpret_cast<std::shared_ptr<const Capture> *>(executable);
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
    const Lock lock(Mutex());
    const auto capture = *reinterpret_cast<std::shared_ptr<const Capture> *>(executable);
    Submit(stream, [capture] {
        for (const auto &work : capture->work) {
            work();
        }
    });
    return DeviceResult();
}

}  // extern "C"
