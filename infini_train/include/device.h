#pragma once

#include <cstdint>
#include <string>

#include "infini_train/include/common/export.h"

namespace infini_train {

/// Where a tensor's memory lies and its kernels run.
class INFINI_TRAIN_EXPORT Device {
public:
    enum class DeviceType : int8_t { kCPU, kCUDA };
    static constexpr int kNumDeviceTypes = 2;

    /// The CPU.
    constexpr Device() = default;
    /// The `index`-th device of a type; throws DeviceError if the index is negative or, on the CPU, not 0.
    Device(DeviceType type, int index = 0);  // NOLINT(google-explicit-constructor): a type names its first device

    constexpr DeviceType type() const { return type_; }
    constexpr int index() const { return index_; }
    constexpr bool IsCPU() const { return type_ == DeviceType::kCPU; }
    constexpr bool IsCUDA() const { return type_ == DeviceType::kCUDA; }

    /// `CPU`, `CUDA:0`
    std::string ToString() const;
    /// Reads `cpu`, `cuda` or `cuda:1` in any case; throws ValueError for anything else.
    static Device FromString(const std::string &text);

    friend constexpr bool operator==(const Device &, const Device &) = default;

private:
    DeviceType type_ = DeviceType::kCPU;
    int8_t index_ = 0;
};

using DeviceType = Device::DeviceType;

/// `CPU`, `CUDA`
INFINI_TRAIN_EXPORT std::string ToString(DeviceType type);

}  // namespace infini_train
