#include "test/cuda_emulation/runtime/stream.h"

#include <map>
#include <utility>

#include "test/cuda_emulation/runtime/options.h"

namespace cuda_emulation {
namespace {

thread_local int current_device = 0;

const std::vector<StreamPtr> &DefaultStreams() {
    static const std::vector<StreamPtr> streams = [] {
        std::vector<StreamPtr> made;
        for (int device = 0; device < kNumDevices; ++device) {
            made.push_back(std::make_shared<Stream>());
            made.back()->device = device;
        }
        return made;
    }();
    return streams;
}

const StreamPtr &DefaultStream(int device) {
    return DefaultStreams()[static_cast<size_t>(device)];
}

std::map<cudaStream_t, StreamPtr> &Streams() {
    static std::map<cudaStream_t, StreamPtr> streams;
    return streams;
}

void Push(Stream *stream, Work work) {
    stream->queue.push_back(std::move(work));
    ++stream->issued;
}

void Await(Stream *stream, const StreamPtr &other) {
    if (other.get() != stream && other->done < other->issued) {
        Push(stream, [other, sequence = other->issued] { RunUntil(other.get(), sequence); });
    }
}

// In random order somebody may also be early.
void RunSome() {
    const std::vector<StreamPtr> streams = AllStreams();
    Stream *const stream = streams[NextRandom() % streams.size()].get();
    RunUntil(stream, stream->done + NextRandom() % 4);
}

}  // namespace

int CurrentDevice() {
    return current_device;
}

void SetCurrentDevice(int device) {
    current_device = device;
}

StreamPtr FindStream(cudaStream_t handle) {
    if (handle == nullptr || handle == cudaStreamLegacy) {
        return DefaultStream(current_device);
    }
    const auto found = Streams().find(handle);
    return found == Streams().end() ? nullptr : found->second;
}

cudaStream_t NewStream(bool is_blocking) {
    auto stream = std::make_shared<Stream>();
    stream->is_blocking = is_blocking;
    stream->device = current_device;
    const auto handle = reinterpret_cast<cudaStream_t>(stream.get());
    Streams()[handle] = std::move(stream);
    return handle;
}

bool DeleteStream(cudaStream_t handle) {
    const auto found = Streams().find(handle);
    if (found == Streams().end()) {
        return false;
    }
    // Real streams finish on their own.
    Drain(found->second);
    Streams().erase(found);
    return true;
}

std::vector<StreamPtr> AllStreams() {
    std::vector<StreamPtr> streams = DefaultStreams();
    for (const auto &[handle, stream] : Streams()) {
        streams.push_back(stream);
    }
    return streams;
}

void Submit(const StreamPtr &stream, Work work) {
    if (stream->capture != nullptr) {
        stream->capture->nodes.push_back(std::move(work));
        ++stream->captured;
        stream->is_joined = false;
        return;
    }
    if (stream == DefaultStream(stream->device)) {
        for (const StreamPtr &other : AllStreams()) {
            if (other->device == stream->device && other->is_blocking && other->capture == nullptr) {
                Await(stream.get(), other);
            }
        }
    } else if (stream->is_blocking) {
        Await(stream.get(), DefaultStream(stream->device));
    }
    Push(stream.get(), std::move(work));
    if (!CurrentOptions().lazy_streams) {
        Drain(stream);
    } else if (NextRandom() % 8 == 0) {
        RunSome();
    }
}

void RunUntil(Stream *stream, uint64_t sequence) {
    while (stream->done < sequence && !stream->queue.empty()) {
        const Work work = std::move(stream->queue.front());
        stream->queue.pop_front();
        work();
        ++stream->done;
    }
}

void Drain(const StreamPtr &stream) {
    RunUntil(stream.get(), stream->issued);
}

void DrainAll() {
    for (const StreamPtr &stream : AllStreams()) {
        Drain(stream);
    }
}

void DrainDevice(int device) {
    for (const StreamPtr &stream : AllStreams()) {
        if (stream->device == device) {
            Drain(stream);
        }
    }
}

bool HasDone(const StreamPtr &stream, uint64_t sequence) {
    if (stream->done < sequence && NextRandom() % 2 == 0) {
        RunUntil(stream.get(), stream->done + 1);
    }
    return stream->done >= sequence;
}

bool IsCaptureInTheWay() {
    for (const StreamPtr &stream : AllStreams()) {
        if (stream->capture != nullptr && stream->is_origin && stream->mode != cudaStreamCaptureModeRelaxed) {
            return true;
        }
    }
    return false;
}

}  // namespace cuda_emulation
