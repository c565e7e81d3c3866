#include "infini_train/src/utils/peak_watch.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

namespace infini_train::utils {

PeakWatch &PeakWatch::Of(Device device) {
    static std::mutex mutex;
    static auto *watches = new std::map<std::pair<int, int>, std::unique_ptr<PeakWatch>>;  // never destroyed
    Allocator &allocator = GetAllocator(device);
    const std::lock_guard lock(mutex);
    auto &watch = (*watches)[{static_cast<int>(device.type()), device.index()}];
    if (watch == nullptr) {
        watch.reset(new PeakWatch(allocator));
    }
    return *watch;
}

MemoryStats PeakWatch::Sample() {
    const MemoryStats stats = allocator_.Stats();
    allocator_.ResetPeak();
    overall_ = std::max(overall_, stats.peak);
    for (Watcher *watcher : watchers_) {
        watcher->peak.store(std::max(watcher->peak.load(), stats.peak));
    }
    return stats;
}

void PeakWatch::Add(Watcher *watcher) {
    const std::lock_guard lock(mutex_);
    watcher->peak.store(Sample().live);  // what was before doesn't count
    watchers_.insert(watcher);
}

void PeakWatch::Remove(Watcher *watcher) {
    const std::lock_guard lock(mutex_);
    Sample();
    watchers_.erase(watcher);
    if (watchers_.empty()) {
        allocator_.RestorePeak(std::exchange(overall_, 0));
    }
}

PeakWatch::Reading PeakWatch::Read(Watcher *watcher) {
    const std::lock_guard lock(mutex_);
    const size_t live = Sample().live;
    return {live, watcher->peak.exchange(live)};
}

}  // namespace infini_train::utils
