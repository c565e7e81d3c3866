#pragma once

#include <memory>

#include "infini_train/include/common/export.h"
#include "infini_train/include/core/stream.h"

namespace infini_train {

/// A mark in a stream, to wait for or to take times between. Recording it again moves it. On the CPU, whose work is
/// done when a call returns, every event has happened, and times are those of the clock.
class INFINI_TRAIN_EXPORT Event {
public:
    /// Events that no times are taken of cost less.
    explicit Event(bool timing = false);
    ~Event();
    Event(Event &&other) noexcept;
    Event &operator=(Event &&other) noexcept;
    Event(const Event &) = delete;
    Event &operator=(const Event &) = delete;

    /// Marks what is queued on the stream now. An event keeps the device of its first Record; throws DeviceError for a
    /// stream of another.
    void Record(const Stream &stream);
    /// Marks the current stream of a device.
    void Record(Device device) { Record(CurrentStream(device)); }

    /// Whether what was marked is done; true if nothing was.
    bool Query() const;
    /// Returns when what was marked is done.
    void Synchronize() const;
    /// From this event to `end`, both made with timing and recorded on the same device; waits for `end`. Throws
    /// ValueError otherwise.
    double ElapsedMilliseconds(const Event &end) const;

private:
    friend class Stream;
    struct State;

    bool timing_;
    std::unique_ptr<State> state_;
};

}  // namespace infini_train
