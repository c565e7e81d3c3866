#include "infini_train/src/tensor/pinned.h"

#include <memory>

#include "infini_train/include/common/error.h"
#include "infini_train/include/core/device_backend.h"
#include "infini_train/include/core/stream.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/core/size.h"
#include "infini_train/src/tensor/shape.h"

namespace infini_train {

TensorPtr EmptyPinned(const std::vector<int64_t> &dims, DataType dtype, Device device) {
    Allocator *const allocator = GetDeviceBackend(device).PinnedAllocator();
    if (allocator == nullptr) {
        return Tensor::Empty(dims, dtype);
    }
    auto storage = std::make_shared<Storage>(CheckedBytes(dims, dtype, "EmptyPinned"), Device(), allocator);
    return std::make_shared<Tensor>(std::move(storage), dims, ContiguousStrides(dims), 0, dtype);
}

TensorPtr Tensor::PinMemory() {
    if (!GetDevice().IsCPU()) {
        Throw<DeviceError>("Tensor::PinMemory: expected a tensor on the CPU, got one on {}", GetDevice().ToString());
    }
    if (!HasDevice(DeviceType::kCUDA) || IsPinned()) {
        return Self();
    }
    auto pinned = EmptyPinned(Dims(), Dtype(), DeviceType::kCUDA);
    pinned->CopyFrom(*this);
    return pinned;
}

bool Tensor::IsPinned() const {
    return GetDevice().IsCPU() && HasDevice(DeviceType::kCUDA) &&
           GetDeviceBackend(DeviceType::kCUDA).IsPinned(storage_->data());
}

void Tensor::RecordUse(const Stream &stream) const {
    if (stream.device() != GetDevice()) {
        Throw<DeviceError>("Tensor::RecordUse: expected a stream of {}, got one of {}", GetDevice().ToString(),
                           stream.device().ToString());
    }
    if (!GetDevice().IsCPU()) {
        GetDeviceBackend(GetDevice()).RecordUse(storage_->data(), stream);
    }
}

}  // namespace infini_train
