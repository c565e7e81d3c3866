#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "infini_train/include/datatype.h"

namespace infini_train::kernels {

/// The largest value below `to` that the type can hold, but no less than `from`.
inline float LastBelow(double from, double to, DataType dtype) {
    constexpr float kLowest = -std::numeric_limits<float>::infinity();
    float last = static_cast<float>(to);
    if (dtype == DataType::kFLOAT32) {
        last = last >= to ? std::nextafter(last, kLowest) : last;
        return std::max(last, static_cast<float>(from));
    }
    const auto round = [&](float value) {
        return dtype == DataType::kFLOAT16 ? static_cast<float>(Float16(value)) : static_cast<float>(BFloat16(value));
    };
    // One step of a 16-bit type is many of float's: half of the distance to the next power of two is always enough.
    const float step = std::max(std::abs(last) * (dtype == DataType::kFLOAT16 ? 0x1p-11F : 0x1p-8F), 0x1p-24F);
    for (float value = last; round(last) >= to; value -= step / 2) {
        last = round(value);
    }
    return std::max(last, static_cast<float>(from));
}

}  // namespace infini_train::kernels
