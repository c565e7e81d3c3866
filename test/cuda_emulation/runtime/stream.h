#pragma once

#include <cstdint>
#include <deque>
#include <driver_types.h>
#include <functional>
#include <memory>
#include <vector>

namespace cuda_emulation {

using Work = std::function<void()>;

/// What a capture collects; a replay runs it in this order.
struct Graph {
    std::vector<Work> nodes;
    bool is_valid = true;
};

/// A queue. Whoever needs its work runs it.
struct Stream {
    std::deque<Work> queue;
    uint64_t issued = 0;
    uint64_t done = 0;
    int device = 0;
    bool is_blocking = true;  // waits for the device's default stream, and it for this one
    std::shared_ptr<Graph> capture;
    bool is_origin = false;  // where the capture began
    uint64_t captured = 0;   // nodes of this stream
    bool is_joined = true;   // some other stream waits for all that was captured here
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
};
using StreamPtr = std::shared_ptr<Stream>;

struct Event {
    StreamPtr stream;  // where it was recorded last
    uint64_t sequence = 0;
    std::shared_ptr<Graph> capture;
    std::shared_ptr<double> milliseconds;
    bool has_timing = true;
};

/// The device of this thread's calls.
int CurrentDevice();
void SetCurrentDevice(int device);

/// The stream of a handle, null for one that doesn't exist.
StreamPtr FindStream(cudaStream_t handle);
cudaStream_t NewStream(bool is_blocking);
bool DeleteStream(cudaStream_t handle);
/// Every stream, the default ones among them.
std::vector<StreamPtr> AllStreams();

/// Queues work, or runs it at once unless streams are lazy; a stream that captures collects it.
void Submit(const StreamPtr &stream, Work work);

/// Runs the stream's work up to the given number, all of it, or everybody's.
void RunUntil(Stream *stream, uint64_t sequence);
void Drain(const StreamPtr &stream);
void DrainAll();
void DrainDevice(int device);

/// For somebody who asks whether the stream has come that far: lazy streams do a little of their work first, or none.
bool HasDone(const StreamPtr &stream, uint64_t sequence);

/// Some stream captures in a way that forbids what might wait for it.
bool IsCaptureInTheWay();

}  // namespace cuda_emulation
