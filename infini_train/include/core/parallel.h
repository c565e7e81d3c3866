#pragma once

#include <cstdint>
#include <type_traits>

#include "infini_train/include/common/export.h"

namespace infini_train {

/// The number of threads that the CPU kernels called from this thread use; at first OpenMP's default (the cores, or
/// `OMP_NUM_THREADS`).
INFINI_TRAIN_EXPORT int GetNumThreads();

/// Sets the number of threads for the whole process. No result depends on it. Throws ValueError if `num_threads` < 1.
INFINI_TRAIN_EXPORT void SetNumThreads(int num_threads);

/// True inside the body of a ParallelFor that really runs on several threads, and while a SerialGuard lives: a
/// ParallelFor runs serially there.
INFINI_TRAIN_EXPORT bool InParallelRegion();

/// While one lives, each ParallelFor of its thread runs serially: for threads of one's own, which would otherwise bring
/// a team of helpers each.
class INFINI_TRAIN_EXPORT SerialGuard {
public:
    SerialGuard();
    ~SerialGuard();
    SerialGuard(const SerialGuard &) = delete;
    SerialGuard &operator=(const SerialGuard &) = delete;

private:
    const bool previous_;
};

namespace internal {
using RangeBody = void (*)(void *context, int64_t begin, int64_t end);
INFINI_TRAIN_EXPORT void ParallelForImpl(int64_t begin, int64_t end, int64_t grain, RangeBody body, void *context);
}  // namespace internal

/// Calls `body(chunk_begin, chunk_end)` for chunks that cover [begin, end) once each. A chunk other than the last has a
/// length that is a multiple of `grain` (>= 1); a range of at most one grain runs in the calling thread. The first
/// exception thrown in a body reaches the caller once all threads are done.
template <typename Body>
void ParallelFor(int64_t begin, int64_t end, int64_t grain, Body &&body) {
    if (end - begin <= grain) {
        if (begin < end) {
            body(begin, end);
        }
        return;
    }
    using B = std::remove_reference_t<Body>;
    internal::ParallelForImpl(
        begin, end, grain,
        [](void *context, int64_t chunk_begin, int64_t chunk_end) {
            (*static_cast<B *>(context))(chunk_begin, chunk_end);
        },
        const_cast<std::remove_const_t<B> *>(&body));
}

}  // namespace infini_train
