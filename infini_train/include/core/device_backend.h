#pragma once

#include <cstddef>
#include <memory>

#include "infini_train/include/common/export.h"
#include "infini_train/include/core/allocator.h"
#include "infini_train/include/device.h"

namespace infini_train {

/// A queue of a device's work, in order; opaque outside the device's own kernels. The CPU's is always done.
struct Stream {
    void *handle = nullptr;
};

/// What the library needs of a kind of device besides its kernels. One object a device type, registered at start-up;
/// the CPU's is always there.
class INFINI_TRAIN_EXPORT DeviceBackend {
public:
    virtual ~DeviceBackend() = default;

    virtual int DeviceCount() const = 0;
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
};

/// The backend of a device type; throws DeviceError where none is registered or, for an index, where it is too large.
INFINI_TRAIN_EXPORT DeviceBackend &GetDeviceBackend(Device device);
INFINI_TRAIN_EXPORT bool HasDevice(Device device);
/// Throws ValueError for a type that has a backend already.
INFINI_TRAIN_EXPORT void RegisterDeviceBackend(DeviceType type, std::unique_ptr<DeviceBackend> backend);

}  // namespace infini_train
