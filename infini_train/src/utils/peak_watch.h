#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <unordered_set>

#include "infini_train/include/core/allocator.h"
#include "infini_train/include/device.h"

namespace infini_train::utils {

/// How much memory of a device was live at most since someone last asked, for any number of askers at once. To tell,
/// it resets the allocator's peak again and again; once nobody watches any more it puts back that of the whole time.
class PeakWatch {
public:
    /// One who asks. `peak` is raised whenever anyone asks.
    struct Watcher {
        std::atomic<size_t> peak{0};
    };
    struct Reading {
        size_t live = 0;
        size_t peak = 0;  ///< since this watcher's last reading
    };

    /// That of a device; throws DeviceError where there is no such device.
    static PeakWatch &Of(Device device);

    void Add(Watcher *watcher);
    void Remove(Watcher *watcher);
    Reading Read(Watcher *watcher);

private:
    explicit PeakWatch(Allocator &allocator) : allocator_(allocator) {}
    MemoryStats Sample();

    Allocator &allocator_;
    std::mutex mutex_;
    std::unordered_set<Watcher *> watchers_;
    size_t overall_ = 0;  // the allocator's peak, had nobody reset it
};

}  // namespace infini_train::utils
