#pragma once

#include "infini_train/include/common/export.h"
#include "infini_train/include/core/device_backend.h"
#include "infini_train/include/device.h"

namespace infini_train {

/// Makes `device` the current one of its type in this thread, until the end of the scope.
class INFINI_TRAIN_EXPORT DeviceGuard {
public:
    /// Throws DeviceError where there is no such device.
    explicit DeviceGuard(Device device) : device_(device) {
        if (!device.IsCPU()) {
            Enter();
        }
    }
    ~DeviceGuard() {
        if (previous_ >= 0) {
            Leave();
        }
    }
    DeviceGuard(const DeviceGuard &) = delete;
    DeviceGuard &operator=(const DeviceGuard &) = delete;

private:
    void Enter();
    void Leave() noexcept;

    Device device_;
    int previous_ = -1;
};

}  // namespace infini_train
