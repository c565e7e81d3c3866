#include "infini_train/include/core/event.h"

#include <chrono>
#include <memory>
#include <utility>

#include "infini_train/include/common/error.h"
#include "infini_train/include/core/device_backend.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/core/event_state.h"

namespace infini_train {

Event::Event(bool timing) : timing_(timing) {}

Event::~Event() {
    if (state_ != nullptr && state_->handle != nullptr) {
        try {
            GetDeviceBackend(state_->device).DeleteEvent(state_->device.index(), state_->handle);
        } catch (...) {
            // Its device has gone, and the event with it.
        }
    }
}

Event::Event(Event &&other) noexcept = default;

Event &Event::operator=(Event &&other) noexcept {
    std::swap(timing_, other.timing_);
    std::swap(state_, other.state_);
    return *this;
}

void Event::Record(const Stream &stream) {
    const Device device = stream.device();
    if (state_ == nullptr) {
        auto state = std::make_unique<State>();
        state->device = device;
        if (!device.IsCPU()) {
            state->handle = GetDeviceBackend(device).NewEvent(device.index(), timing_);
        }
        state_ = std::move(state);
    }
    if (state_->device != device) {
        Throw<DeviceError>("Event::Record: expected a stream of {}, where it was first recorded, got one of {}",
                           state_->device.ToString(), device.ToString());
    }
    if (device.IsCPU()) {
        state_->time = std::chrono::steady_clock::now();
    } else {
        GetDeviceBackend(device).Record(state_->handle, stream);
    }
}

bool Event::Query() const {
    return state_ == nullptr || state_->device.IsCPU() || GetDeviceBackend(state_->device).QueryEvent(state_->handle);
}

void Event::Synchronize() const {
    if (state_ != nullptr && !state_->device.IsCPU()) {
        GetDeviceBackend(state_->device).SynchronizeEvent(state_->handle);
    }
}

double Event::ElapsedMilliseconds(const Event &end) const {
    if (!timing_ || !end.timing_) {
        throw ValueError("Event::ElapsedMilliseconds: expected two events made with timing");
    }
    if (state_ == nullptr || end.state_ == nullptr || state_->device != end.state_->device) {
        throw ValueError("Event::ElapsedMilliseconds: expected two events that were recorded on one device");
    }
    if (state_->device.IsCPU()) {
        return std::chrono::duration<double, std::milli>(end.state_->time - state_->time).count();
    }
    end.Synchronize();
    return GetDeviceBackend(state_->device).ElapsedMilliseconds(state_->handle, end.state_->handle);
}

}  // namespace infini_train
