#include "infini_train/src/cuda/backend.h"

#include <algorithm>
#include <utility>

#include "infini_train/include/common/error.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/cuda/device_scope.h"
#include "infini_train/src/cuda/error.h"
#include "infini_train/src/cuda/graph.h"
#include "infini_train/src/kernels/registry.h"

namespace infini_train::cuda {
namespace {

std::string WhyNone(cudaError_t error) {
    switch (error) {
        case cudaSuccess:
        case cudaErrorNoDevice:
            return "no GPU is visible (CUDA_VISIBLE_DEVICES may hide them)";
        case cudaErrorInsufficientDriver: {
            // Also what the runtime says where there is no driver at all.
            int driver = 0, runtime = 0;
            (void)cudaDriverGetVersion(&driver);
            (void)cudaRuntimeGetVersion(&runtime);
            (void)cudaGetLastError();
            return driver == 0
                       ? "no NVIDIA driver is installed"
                       : fmt::format("the NVIDIA driver is too old: it supports CUDA {}.{}, this build needs {}.{}",
                                     driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
        }
        default:
            return fmt::format("{}: {}", cudaGetErrorName(error), cudaGetErrorString(error));
    }
}

cudaStream_t Handle(const Stream &stream) {
    return static_cast<cudaStream_t>(stream.handle());
}

cudaEvent_t Handle(void *event) {
    return static_cast<cudaEvent_t>(event);
}

cudaMemcpyKind KindOf(Device destination, Device source) {
    if (source.IsCPU()) {
        return cudaMemcpyHostToDevice;
    }
    return destination.IsCPU() ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice;
}

bool IsReady(cudaError_t error, const char *what) {
    if (error == cudaErrorNotReady) {
        (void)cudaGetLastError();
        return false;
    }
    CheckCuda(error, what);
    return true;
}

}  // namespace

Backend::Backend() {
    const cudaError_t error = cudaGetDeviceCount(&count_);
    if (error != cudaSuccess || count_ == 0) {
        (void)cudaGetLastError();
        count_ = 0;
        why_none_ = WhyNone(error);
    }
    count_ = std::min(count_, kMaxDevices);
}

CachingAllocator &Backend::AllocatorOf(int index) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::unique_ptr<CachingAllocator> &allocator = devices_[static_cast<size_t>(index)].allocator;
    if (allocator == nullptr) {
        allocator = std::make_unique<CachingAllocator>(index);
    }
    return *allocator;
}

void Backend::SetCurrentDevice(int index) {
    CheckCuda(cudaSetDevice(index), "cudaSetDevice");
}

Stream Backend::CurrentStream() const {
    return {Device(DeviceType::kCUDA, CurrentDeviceIndex()), cuda::CurrentStream()};
}

void Backend::SetCurrentStream(Stream stream) {
    SetCurrentStreamOf(CurrentDeviceIndex(), Handle(stream));
}

void Backend::Synchronize() {
    CheckCuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

void Backend::Copy(void *destination, Device destination_device, const void *source, Device source_device,
                   size_t bytes) {
    const bool is_under_way = CopyAsync(destination, destination_device, source, source_device, bytes);
    // Between two places of one device the stream's order is enough.
    if (is_under_way && destination_device != source_device) {
        const Device device = destination_device.IsCPU() ? source_device : destination_device;
        CheckCuda(cudaStreamSynchronize(CurrentStreamOf(device.index())), "cudaStreamSynchronize");
    }
}

bool Backend::CopyAsync(void *destination, Device destination_device, const void *source, Device source_device,
                        size_t bytes) {
    if (bytes == 0) {
        return false;
    }
    // Queued where the copy is read, if that is a GPU: its stream is what the source was made on.
    const Device device = source_device.IsCPU() ? destination_device : source_device;
    const DeviceScope scope(device.index());
    const cudaStream_t stream = cuda::CurrentStream();
    const cudaMemcpyKind kind = KindOf(destination_device, source_device);
    CheckCuda(cudaMemcpyAsync(destination, source, bytes, kind, stream), "cudaMemcpyAsync");
    if (destination_device == source_device) {
        return true;
    }
    if (!destination_device.IsCPU() && !source_device.IsCPU()) {
        // The other device's stream goes on once the data is there, and what wrote there before is its own affair.
        cudaEvent_t event = nullptr;
        CheckCuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
        CheckCuda(cudaEventRecord(event, stream), "cudaEventRecord");
        CheckCuda(cudaStreamWaitEvent(CurrentStreamOf(destination_device.index()), event, 0), "cudaStreamWaitEvent");
        CheckCuda(cudaEventDestroy(event), "cudaEventDestroy");
        return true;
    }
    const void *const host = source_device.IsCPU() ? source : destination;
    if (!pinned_.Contains(host)) {
        CheckCuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
        return false;
    }
    pinned_.RecordUse(host, stream);
    return true;
}

void Backend::RecordUse(void *block, const Stream &stream) {
    AllocatorOf(stream.device().index()).RecordUse(block, Handle(stream));
}

Stream Backend::NewStream(int index, Stream::Priority priority) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const DeviceScope scope(index);
    DeviceState &state = devices_[static_cast<size_t>(index)];
    Streams &streams = priority == Stream::Priority::kHigh ? state.high : state.normal;
    cudaStream_t &stream = streams.made[streams.next++ % kStreamsPerPriority];
    if (stream == nullptr) {
        int least = 0, greatest = 0;
        CheckCuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
        const int level = priority == Stream::Priority::kHigh ? greatest : least;
        CheckCuda(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, level), "cudaStreamCreateWithPriority");
    }
    return {Device(DeviceType::kCUDA, index), stream};
}

bool Backend::Query(const Stream &stream) {
    const DeviceScope scope(stream.device().index());
    return IsReady(cudaStreamQuery(Handle(stream)), "cudaStreamQuery");
}

void Backend::Synchronize(const Stream &stream) {
    const DeviceScope scope(stream.device().index());
    CheckCuda(cudaStreamSynchronize(Handle(stream)), "cudaStreamSynchronize");
}

void *Backend::NewEvent(int index, bool timing) {
    const DeviceScope scope(index);
    cudaEvent_t event = nullptr;
    CheckCuda(cudaEventCreateWithFlags(&event, timing ? cudaEventDefault : cudaEventDisableTiming),
              "cudaEventCreateWithFlags");
    return event;
}

void Backend::DeleteEvent(int /*index*/, void *event) noexcept {
    (void)cudaEventDestroy(Handle(event));
}

void Backend::Record(void *event, const Stream &stream) {
    const DeviceScope scope(stream.device().index());
    CheckCuda(cudaEventRecord(Handle(event), Handle(stream)), "cudaEventRecord");
}

void Backend::MakeWait(const Stream &stream, void *event) {
    const DeviceScope scope(stream.device().index());
    CheckCuda(cudaStreamWaitEvent(Handle(stream), Handle(event), 0), "cudaStreamWaitEvent");
}

bool Backend::QueryEvent(void *event) {
    return IsReady(cudaEventQuery(Handle(event)), "cudaEventQuery");
}

void Backend::SynchronizeEvent(void *event) {
    CheckCuda(cudaEventSynchronize(Handle(event)), "cudaEventSynchronize");
}

double Backend::ElapsedMilliseconds(void *start, void *end) {
    float milliseconds = 0;
    CheckCuda(cudaEventElapsedTime(&milliseconds, Handle(start), Handle(end)), "cudaEventElapsedTime");
    return milliseconds;
}

std::unique_ptr<RecordedGraph> Backend::NewGraph(int index) {
    return std::make_unique<Graph>(index, &AllocatorOf(index));
}

void RegisterBackend() {
    RegisterDeviceBackend(DeviceType::kCUDA, std::make_unique<Backend>());
}

}  // namespace infini_train::cuda
