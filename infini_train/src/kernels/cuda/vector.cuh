#pragma once

#include <cstddef>
#include <cstdint>

namespace infini_train::cuda {

/// N elements that one instruction loads or stores where they are up to 16 bytes.
template <typename T, int N>
struct alignas(sizeof(T) * N <= 16 ? sizeof(T) * N : 16) Vec {
    T data[N];

    __device__ __forceinline__ T &operator[](int i) { return data[i]; }
    __device__ __forceinline__ const T &operator[](int i) const { return data[i]; }

    /// The elements from `from` on, which must be aligned to Vec.
    static __device__ __forceinline__ Vec Load(const T *from) { return *reinterpret_cast<const Vec *>(from); }
    __device__ __forceinline__ void Store(T *to) const { *reinterpret_cast<Vec *>(to) = *this; }
};

/// The elements of 16 bytes.
template <typename T>
inline constexpr int kVecLength = 16 / static_cast<int>(sizeof(T));

/// Whether a Vec of `bytes` bytes may begin here.
inline bool IsAligned(const void *data, size_t bytes = 16) {
    return reinterpret_cast<uintptr_t>(data) % bytes == 0;
}

}  // namespace infini_train::cuda
