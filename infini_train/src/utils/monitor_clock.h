#pragma once

#include <chrono>

#include "infini_train/include/utils/monitor_log.h"

namespace infini_train::utils {

/// Adds the time of its scope to a log's Seconds(). Not to be nested.
class MonitorLog::Clock {
public:
    explicit Clock(MonitorLog &log) : log_(log) {}
    ~Clock() {
        using std::chrono::nanoseconds;
        const auto time = std::chrono::duration_cast<nanoseconds>(std::chrono::steady_clock::now() - start_);
        log_.nanoseconds_.fetch_add(time.count(), std::memory_order_relaxed);
    }
    Clock(const Clock &) = delete;
    Clock &operator=(const Clock &) = delete;

private:
    MonitorLog &log_;
    const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace infini_train::utils
