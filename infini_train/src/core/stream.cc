#include "infini_train/include/core/stream.h"

#include <utility>

#include "infini_train/include/common/error.h"
#include "infini_train/include/core/device_backend.h"
#include "infini_train/include/core/device_guard.h"
#include "infini_train/include/core/event.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/core/event_state.h"

namespace infini_train {

Stream::Stream(Device device, Priority priority) : device_(device) {
    handle_ = GetDeviceBackend(device).NewStream(device.index(), priority).handle();
}

bool Stream::Query() const {
    return device_.IsCPU() || GetDeviceBackend(device_).Query(*this);
}

void Stream::Synchronize() const {
    if (!device_.IsCPU()) {
        GetDeviceBackend(device_).Synchronize(*this);
    }
}

void Stream::WaitFor(const Event &event) const {
    if (event.state_ == nullptr || event.state_->device.IsCPU()) {
        return;
    }
    if (device_.IsCPU()) {
        event.Synchronize();
    } else {
        GetDeviceBackend(device_).MakeWait(*this, event.state_->handle);
    }
}

void Stream::WaitFor(const Stream &other) const {
    if (other.device_.IsCPU() || other == *this) {
        return;
    }
    Event event;
    event.Record(other);
    WaitFor(event);
}

Stream CurrentStream(Device device) {
    if (device.IsCPU()) {
        return {};
    }
    const DeviceGuard guard(device);
    return GetDeviceBackend(device).CurrentStream();
}

Stream DefaultStream(Device device) {
    return {device, nullptr};
}

void Synchronize(Device device) {
    if (!device.IsCPU()) {
        const DeviceGuard guard(device);
        GetDeviceBackend(device).Synchronize();
    }
}

void StreamGuard::Enter() {
    DeviceBackend &backend = GetDeviceBackend(stream_.device());
    previous_device_ = backend.CurrentDevice();
    backend.SetCurrentDevice(stream_.device().index());
    previous_ = backend.CurrentStream();
    backend.SetCurrentStream(stream_);
    entered_ = true;
}

void StreamGuard::Leave() noexcept {
    try {
        DeviceBackend &backend = GetDeviceBackend(stream_.device());
        backend.SetCurrentDevice(stream_.device().index());
        backend.SetCurrentStream(previous_);
        backend.SetCurrentDevice(previous_device_);
    } catch (...) {
        // A destructor can't report it; the device's next call will.
    }
}

}  // namespace infini_train
