#include "infini_train/include/device.h"

#include <charconv>
#include <limits>
#include <string_view>

#include "infini_train/include/common/error.h"

#include "infini_train/src/common/format.h"

namespace infini_train {
namespace {

constexpr int kMaxIndex = std::numeric_limits<int8_t>::max();

[[noreturn]] void ThrowBadDevice(const std::string &text) {
    Throw<ValueError>("Device::FromString: expected cpu, cuda or cuda:<index>, got '{}'", text);
}

}  // namespace

Device::Device(DeviceType type, int index) : type_(type), index_(static_cast<int8_t>(index)) {
    const int limit = type == DeviceType::kCPU ? 0 : kMaxIndex;
    if (index < 0 || index > limit) {
        Throw<DeviceError>("Device: expected an index from 0 to {} for {}, got {}", limit, infini_train::ToString(type),
                           index);
    }
}

std::string Device::ToString() const {
    return IsCPU() ? "CPU" : fmt::format("{}:{}", infini_train::ToString(type_), index_);
}

Device Device::FromString(const std::string &text) {
    std::string lower = text;
    for (char &c : lower) {
        c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
    const std::string_view view = lower;
    const size_t colon = view.find(':');
    const std::string_view name = view.substr(0, colon);
    if (name != "cpu" && name != "cuda") {
        ThrowBadDevice(text);
    }
    const DeviceType type = name == "cpu" ? DeviceType::kCPU : DeviceType::kCUDA;
    if (colon == std::string_view::npos) {
        return Device(type);
    }
    const std::string_view digits = view.substr(colon + 1);
    const char *const end = digits.data() + digits.size();
    int index = -1;
    const auto [parsed, error] = std::from_chars(digits.data(), end, index);
    if (error != std::errc() || parsed != end || index < 0 || index > (type == DeviceType::kCPU ? 0 : kMaxIndex)) {
        ThrowBadDevice(text);
    }
    return Device(type, index);
}

std::string ToString(DeviceType type) {
    switch (type) {
        case DeviceType::kCPU:
            return "CPU";
        case DeviceType::kCUDA:
            return "CUDA";
    }
    return fmt::format("DeviceType({})", static_cast<int>(type));
}

}  // namespace infini_train
