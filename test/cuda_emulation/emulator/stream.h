#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include <cuda_runtime_api.h>

namespace cuda_emulation {

/// Work that was recorded instead of being queued.
struct Capture {
    std::vector<std::function<void()>> work;
    bool is_valid = true;
};

/// A queue of work. Lazy ones (Options) run it only when somebody waits, so that a missing event shows as a wrong
/// result, whatever the real timing would be.
struct StreamQueue {
    std::deque<std::function<void()>> work;
    uint64_t queued = 0;  // ever
    uint64_t done = 0;
    bool blocks_default = true;  // is ordered with the default stream
    int device = 0;
    std::shared_ptr<Capture> capture;
    bool began_capture = false;
};

struct EventMark {
    StreamQueue *stream = nullptr;  // null before the first record
    uint64_t position = 0;          // of what must be done
    std::shared_ptr<Capture> capture;
    std::shared_ptr<double> milliseconds = std::make_shared<double>(0.0);
};

/// Of a handle; null is the current device's default stream.
StreamQueue *QueueOf(cudaStream_t stream);
void Submit(cudaStream_t stream, std::function<void()> work);
/// Runs the stream's work up to a position, or all of it; what it waits for comes first.
void RunUntil(StreamQueue *queue, uint64_t position);
void RunAll(StreamQueue *queue);
void RunEverything();
/// Whether a call may wait for the stream: not while it records, which then is of no use any more.
bool MayWait(StreamQueue *queue);

}  // namespace cuda_emulation
