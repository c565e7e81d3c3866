#pragma once

#include <cstddef>
#include <cstdint>

namespace infini_train::cpu {

/// What a thread may need room for at the same time.
enum class GemmBuffer {
    kShared,   // an operand packed for all threads
    kPrivate,  // panels that only this thread reads
    kScratch,  // results in float, before they are rounded to a 16-bit type
};
inline constexpr int kNumGemmBuffers = 3;

/// A buffer of at least `bytes` bytes, aligned to 64, that belongs to the calling thread until it asks for the same one
/// again. It grows, keeps its size for the next call and is freed with the thread. Throws OutOfMemoryError.
void *GemmWorkspace(GemmBuffer buffer, size_t bytes);

template <typename T>
T *GemmWorkspace(GemmBuffer buffer, int64_t elements) {
    return static_cast<T *>(GemmWorkspace(buffer, static_cast<size_t>(elements) * sizeof(T)));
}

}  // namespace infini_train::cpu
