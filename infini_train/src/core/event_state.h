#pragma once

#include <chrono>

#include "infini_train/include/core/event.h"

namespace infini_train {

/// What an event that was recorded has.
struct Event::State {
    Device device;
    void *handle = nullptr;
    std::chrono::steady_clock::time_point time;  // the CPU's
};

}  // namespace infini_train
