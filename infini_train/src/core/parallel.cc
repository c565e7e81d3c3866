#include "infini_train/include/core/parallel.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#if !defined(__SANITIZE_THREAD__) && defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif

// ThreadSanitizer doesn't understand libgomp's barriers, so its builds run on plain threads.
#if defined(__SANITIZE_THREAD__) || !defined(_OPENMP)
#define INFINI_TRAIN_USE_STD_THREADS 1
#else
#include <omp.h>
#endif

#include "infini_train/include/common/error.h"

namespace infini_train {
namespace {

#ifdef INFINI_TRAIN_USE_STD_THREADS
int DefaultNumThreads() {
    const char *const wanted = std::getenv("OMP_NUM_THREADS");
    const int threads = wanted != nullptr ? std::atoi(wanted) : 0;
    return threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}
#else
int DefaultNumThreads() {
    return std::max(1, omp_get_max_threads());
}
#endif

std::atomic<int> &NumThreads() {
    static std::atomic<int> num_threads{DefaultNumThreads()};
    return num_threads;
}

thread_local bool in_parallel_region = false;

// Marks the thread as working for a ParallelFor, so that nested ones stay serial, and keeps the first exception.
class Worker {
public:
    Worker(int64_t begin, int64_t end, int64_t chunk, internal::RangeBody body, void *context)
        : begin_(begin), end_(end), chunk_(chunk), body_(body), context_(context) {}

    void Run(int64_t index) noexcept {
        const int64_t chunk_begin = begin_ + index * chunk_;
        const int64_t chunk_end = std::min(end_, chunk_begin + chunk_);
        if (chunk_begin >= chunk_end) {
            return;
        }
        in_parallel_region = true;
        try {
            body_(context_, chunk_begin, chunk_end);
        } catch (...) {
            if (!failed_.test_and_set()) {
                error_ = std::current_exception();
            }
        }
        in_parallel_region = false;
    }

    void Rethrow() const {
        if (error_) {
            std::rethrow_exception(error_);
        }
    }

private:
    const int64_t begin_, end_, chunk_;
    const internal::RangeBody body_;
    void *const context_;
    std::atomic_flag failed_;
    std::exception_ptr error_;
};

}  // namespace

int GetNumThreads() {
    return NumThreads().load(std::memory_order_relaxed);
}

void SetNumThreads(int num_threads) {
    if (num_threads < 1) {
        throw ValueError("SetNumThreads: expected at least 1, got " + std::to_string(num_threads));
    }
    NumThreads().store(num_threads, std::memory_order_relaxed);
}

bool InParallelRegion() {
    return in_parallel_region;
}

SerialGuard::SerialGuard() : previous_(in_parallel_region) {
    in_parallel_region = true;
}

SerialGuard::~SerialGuard() {
    in_parallel_region = previous_;
}

namespace internal {

void ParallelForImpl(int64_t begin, int64_t end, int64_t grain, RangeBody body, void *context) {
    const int64_t grains = (end - begin + grain - 1) / grain;
    const int64_t threads = in_parallel_region ? 1 : std::min<int64_t>(GetNumThreads(), grains);
    if (threads <= 1) {
        body(context, begin, end);
        return;
    }
    Worker worker(begin, end, (grains + threads - 1) / threads * grain, body, context);
#ifdef INFINI_TRAIN_USE_STD_THREADS
    std::vector<std::thread> pool;
    pool.reserve(static_cast<size_t>(threads));
    for (int64_t i = 1; i < threads; ++i) {
        try {
            pool.emplace_back([&worker, i] { worker.Run(i); });
        } catch (const std::system_error &) {
            worker.Run(i);  // the system has no more threads
        }
    }
    worker.Run(0);
    for (auto &thread : pool) {
        thread.join();
    }
#else
    const int team = static_cast<int>(threads);
#pragma omp parallel for num_threads(team) schedule(static, 1)
    for (int64_t i = 0; i < threads; ++i) {
        worker.Run(i);
    }
#endif
    worker.Rethrow();
}

}  // namespace internal
}  // namespace infini_train
