#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "infini_train/include/dataloader.h"

namespace infini_train {

/// Threads that make numbered batches ahead of where they are asked for, and hand them out in order.
class Prefetcher {
public:
    using Make = std::function<DataLoader::Batch(size_t index)>;

    /// Batches first..end-1; `make` is called by several threads at once. At most `ahead` >= 1 of them lie ready or are
    /// being made. Where the system gives no threads, batches are made when they are asked for.
    Prefetcher(Make make, size_t first, size_t end, size_t num_workers, size_t ahead);
    /// Waits for the batches being made.
    ~Prefetcher();
    Prefetcher(const Prefetcher &) = delete;
    Prefetcher &operator=(const Prefetcher &) = delete;

    /// Batch `index`, or the exception it ended in; asked for in ascending order, each once. Those before it that
    /// nobody asked for are dropped.
    DataLoader::Batch Take(size_t index);

private:
    struct Result {
        std::optional<DataLoader::Batch> batch;
        std::exception_ptr error;
    };

    void Work();
    Result MakeResult(size_t index) const;

    const Make make_;
    const size_t end_;
    const size_t ahead_;
    std::mutex mutex_;
    std::condition_variable room_;   // for workers: a batch was taken, or it is over
    std::condition_variable ready_;  // for the taker: a batch was made
    size_t next_;                    // to be made
    size_t wanted_;                  // no batch before this one will be asked for
    bool stop_ = false;
    std::map<size_t, Result> results_;
    std::vector<std::thread> workers_;
};

}  // namespace infini_train
