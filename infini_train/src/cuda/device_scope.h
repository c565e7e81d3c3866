#pragma once

#include <cuda_runtime_api.h>

#include "infini_train/src/cuda/current.h"
#include "infini_train/src/cuda/error.h"

namespace infini_train::cuda {

/// Makes a device the thread's current one until the end of the scope.
class DeviceScope {
public:
    explicit DeviceScope(int device) : previous_(CurrentDeviceIndex()), device_(device) {
        if (device_ != previous_) {
            CheckCuda(cudaSetDevice(device_), "cudaSetDevice");
        }
    }
    ~DeviceScope() {
        if (device_ != previous_) {
            (void)cudaSetDevice(previous_);
        }
    }
    DeviceScope(const DeviceScope &) = delete;
    DeviceScope &operator=(const DeviceScope &) = delete;

private:
    const int previous_;
    const int device_;
};

}  // namespace infini_train::cuda
