#pragma once

#include "infini_train/include/common/export.h"
#include "infini_train/include/device.h"

namespace infini_train {

class Event;

/// A queue of a device's work, in order; work in different streams may overlap. A small value that copies freely. The
/// CPU's is always done.
///
///     const Stream side(Device(DeviceType::kCUDA));
///     {
///         const StreamGuard guard(side);
///         y = x->To(Device(DeviceType::kCUDA), /*non_blocking=*/true);  // beside what runs on the default stream
///     }
///     CurrentStream(side.device()).WaitFor(side);
///
/// Whoever uses a tensor on another stream than the one it was made on makes that stream wait first (WaitFor), and says
/// so with RecordUse, so that its memory isn't given away too early.
class INFINI_TRAIN_EXPORT Stream {
public:
    enum class Priority { kNormal, kHigh };

    /// The CPU's.
    Stream() = default;
    /// One of the device's streams besides its default one: each call gives the next of 32, which live as long as the
    /// process. Throws DeviceError where there is no such device.
    explicit Stream(Device device, Priority priority = Priority::kNormal);
    /// What a backend calls its own; null stands for the device's default stream.
    Stream(Device device, void *handle) : device_(device), handle_(handle) {}

    Device device() const { return device_; }
    /// A cudaStream_t on a GPU.
    void *handle() const { return handle_; }

    /// Whether all that was queued is done. Errors of the device's earlier work are thrown here.
    bool Query() const;
    /// Returns when all that was queued is done. Throws CudaError if some of it failed.
    void Synchronize() const;
    /// What is queued here from now on runs after what `event` has recorded, or after all that is queued on `other`
    /// now.
    void WaitFor(const Event &event) const;
    void WaitFor(const Stream &other) const;

    friend bool operator==(const Stream &, const Stream &) = default;

private:
    Device device_;
    void *handle_ = nullptr;
};

/// The stream on which this thread's kernels and copies for `device` are queued: at first the device's default one.
INFINI_TRAIN_EXPORT Stream CurrentStream(Device device);
INFINI_TRAIN_EXPORT Stream DefaultStream(Device device);
/// Waits for all streams of the device.
INFINI_TRAIN_EXPORT void Synchronize(Device device);

/// Makes a stream, and its device, the current ones of this thread until the end of the scope.
class INFINI_TRAIN_EXPORT StreamGuard {
public:
    explicit StreamGuard(const Stream &stream) : stream_(stream) {
        if (!stream.device().IsCPU()) {
            Enter();
        }
    }
    ~StreamGuard() {
        if (entered_) {
            Leave();
        }
    }
    StreamGuard(const StreamGuard &) = delete;
    StreamGuard &operator=(const StreamGuard &) = delete;

private:
    void Enter();
    void Leave() noexcept;

    const Stream stream_;
    Stream previous_;
    int previous_device_ = 0;
    bool entered_ = false;
};

}  // namespace infini_train
