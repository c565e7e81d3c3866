#pragma once

#include <chrono>

namespace infini_train::example {

/// Seconds since some moment, for differences.
inline double SecondsNow() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace infini_train::example
