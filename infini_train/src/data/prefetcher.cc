#include "infini_train/src/data/prefetcher.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "infini_train/include/core/parallel.h"

namespace infini_train {

Prefetcher::Prefetcher(Make make, size_t first, size_t end, size_t num_workers, size_t ahead)
    : make_(std::move(make)), end_(end), ahead_(ahead), next_(first), wanted_(first) {
    workers_.reserve(num_workers);
    for (size_t i = 0; i < num_workers; ++i) {
        try {
            workers_.emplace_back([this] { Work(); });
        } catch (const std::system_error &) {
            break;  // the system has no more threads: those that there are do the work
        }
    }
}

Prefetcher::~Prefetcher() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        stop_ = true;
    }
    room_.notify_all();
    for (std::thread &worker : workers_) {
        worker.join();
    }
}

Prefetcher::Result Prefetcher::MakeResult(size_t index) const {
    Result result;
    try {
        result.batch = make_(index);
    } catch (...) {
        result.error = std::current_exception();
    }
    return result;
}

void Prefetcher::Work() {
    const SerialGuard serial;
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
        room_.wait(lock, [&] {
            next_ = std::max(next_, wanted_);
            return stop_ || next_ >= end_ || next_ - wanted_ < ahead_;
        });
        if (stop_ || next_ >= end_) {
            return;
        }
        const size_t index = next_++;
        lock.unlock();
        // Made and let go of by this thread outside of the lock: an exception belongs to the taker alone once it's
        // there.
        Result result = MakeResult(index);
        lock.lock();
        if (index >= wanted_) {
            results_.emplace(index, std::move(result));
            ready_.notify_one();
        }
    }
}

DataLoader::Batch Prefetcher::Take(size_t index) {
    Result result;
    if (workers_.empty()) {
        result = MakeResult(index);
    } else {
        std::map<size_t, Result> dropped;  // destroyed without the lock
        std::unique_lock<std::mutex> lock(mutex_);
        wanted_ = index;
        dropped = std::exchange(results_, {});
        for (auto entry = dropped.lower_bound(index); entry != dropped.end();) {
            results_.insert(dropped.extract(entry++));
        }
        room_.notify_all();
        ready_.wait(lock, [&] { return results_.count(index) != 0; });
        result = std::move(results_.extract(index).mapped());
        wanted_ = index + 1;
        room_.notify_all();
    }
    if (result.error != nullptr) {
        std::rethrow_exception(std::exchange(result.error, nullptr));
    }
    return *std::move(result.batch);
}

}  // namespace infini_train
