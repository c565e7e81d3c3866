#pragma once

#include <cstdint>

#include "infini_train/src/kernels/cuda/launch.cuh"
#include "infini_train/src/kernels/cuda/reduce.cuh"

namespace infini_train::cuda {

/// The threads that share a row of something: one, a warp or a block.
template <int kLanes>
struct RowGroup {
    static_assert(kLanes == 1 || kLanes == kWarp || kLanes == kBlock);
    static constexpr int kLength = kLanes;
    static constexpr int kRowsPerBlock = kBlock / kLanes;

    /// Calls `body(row)` for the rows of this thread's group. All threads of a group are in it together.
    template <typename Body>
    static __device__ __forceinline__ void ForRows(int64_t rows, Body &&body) {
        const int64_t step = static_cast<int64_t>(gridDim.x) * kRowsPerBlock;
        const int64_t first = static_cast<int64_t>(blockIdx.x) * kRowsPerBlock + static_cast<int>(threadIdx.x) / kLanes;
        for (int64_t row = first; row < rows; row += step) {
            body(row);
        }
    }
    static __device__ __forceinline__ int Lane() { return static_cast<int>(threadIdx.x) % kLanes; }

    /// Every thread of the group gets the result.
    template <typename T>
    static __device__ __forceinline__ T Sum(T value) {
        return Reduce(value, SumOp(), T{0});
    }
    template <typename T, typename Op>
    static __device__ __forceinline__ T Reduce(T value, Op op, T identity) {
        if constexpr (kLanes == kBlock) {
            return BlockReduce(value, op, identity);
        } else if constexpr (kLanes == kWarp) {
            return WarpReduce(value, op);
        } else {
            return value;
        }
    }
};

inline constexpr int64_t kLongRow = 1024;

/// Calls `body(group)` with the group that suits rows of `length` adjacent elements.
template <typename Body>
void VisitRowGroup(int64_t length, Body &&body) {
    if (length <= kLongRow) {
        body(RowGroup<kWarp>());
    } else {
        body(RowGroup<kBlock>());
    }
}

}  // namespace infini_train::cuda
