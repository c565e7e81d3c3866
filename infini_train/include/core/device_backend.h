#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "infini_train/include/common/export.h"
#include "infini_train/include/core/allocator.h"
#include "infini_train/include/core/generator.h"
#include "infini_train/include/core/stream.h"
#include "infini_train/include/device.h"

namespace infini_train {

/// What a backend does for a DeviceGraph.
class INFINI_TRAIN_EXPORT RecordedGraph {
public:
    virtual ~RecordedGraph() = default;

    /// From here to End the work that this thread queues for the device is recorded in place of what was.
    virtual void Begin() = 0;
    /// Without `keep` what was recorded is dropped, and nothing is thrown.
    virtual void End(bool keep) = 0;
    /// Queues the work on the current stream. What it drew from a generator at `captured` or later comes from where
    /// `now` is instead.
    virtual void Replay(const Generator::State &captured, const Generator::State &now) = 0;
};

/// What the library needs of a kind of device besides its kernels. One object a device type, registered at start-up;
/// the CPU's is always there. What isn't pure virtual suits a device whose work is done when a call returns.
class INFINI_TRAIN_EXPORT DeviceBackend {
public:
    virtual ~DeviceBackend() = default;

    virtual int DeviceCount() const = 0;
    /// Where DeviceCount() is 0: why, as the end of a sentence.
    virtual std::string WhyNoDevice() const { return "there is none"; }
    /// The device that this thread's next calls go to.
    virtual int CurrentDevice() const = 0;
    virtual void SetCurrentDevice(int index) = 0;
    virtual Allocator &GetAllocator(int index) = 0;
    /// The stream of this thread's current device, and its replacement.
    virtual Stream CurrentStream() const = 0;
    virtual void SetCurrentStream(Stream stream) = 0;
    /// Waits until all work of the current device is done.
    virtual void Synchronize() = 0;
    /// Copies between this kind of device and itself or the CPU; returns when `source` may be reused.
    virtual void Copy(void *destination, Device destination_device, const void *source, Device source_device,
                      size_t bytes) = 0;

    /// The same on the current stream, without waiting where that is possible: the CPU's side lies in PinnedAllocator's
    /// memory, which is then kept until the copy is done, or both are on the device. Returns whether it is under way.
    virtual bool CopyAsync(void *destination, Device destination_device, const void *source, Device source_device,
                           size_t bytes) {
        Copy(destination, destination_device, source, source_device, bytes);
        return false;
    }
    /// Memory of the CPU's from and to which copies run on their own; null where there is nothing to it.
    virtual Allocator *PinnedAllocator() { return nullptr; }
    /// Whether PinnedAllocator has given out this block.
    virtual bool IsPinned(const void * /*block*/) const { return false; }
    /// Says that a block of GetAllocator's is used on `stream`, too: once given back, it waits for what is queued
    /// there.
    virtual void RecordUse(void * /*block*/, const Stream & /*stream*/) {}

    virtual Stream NewStream(int /*index*/, Stream::Priority /*priority*/) { return CurrentStream(); }
    virtual bool Query(const Stream & /*stream*/) { return true; }
    virtual void Synchronize(const Stream & /*stream*/) {}

    /// Events, as opaque handles.
    virtual void *NewEvent(int /*index*/, bool /*timing*/) { return nullptr; }
    virtual void DeleteEvent(int /*index*/, void * /*event*/) noexcept {}
    virtual void Record(void * /*event*/, const Stream & /*stream*/) {}
    virtual void MakeWait(const Stream & /*stream*/, void * /*event*/) {}
    virtual bool QueryEvent(void * /*event*/) { return true; }
    virtual void SynchronizeEvent(void * /*event*/) {}
    virtual double ElapsedMilliseconds(void * /*start*/, void * /*end*/) { return 0; }

    /// Null where work can't be recorded.
    virtual std::unique_ptr<RecordedGraph> NewGraph(int /*index*/) { return nullptr; }
};

/// The backend of a device type; throws DeviceError where none is registered or, for an index, where it is too large.
INFINI_TRAIN_EXPORT DeviceBackend &GetDeviceBackend(Device device);
INFINI_TRAIN_EXPORT bool HasDevice(Device device);
/// Throws ValueError for a type that has a backend with devices already; one without gives way.
INFINI_TRAIN_EXPORT void RegisterDeviceBackend(DeviceType type, std::unique_ptr<DeviceBackend> backend);

}  // namespace infini_train
