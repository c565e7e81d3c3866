#pragma once

#include "infini_train/src/kernels/cuda/launch.cuh"

namespace infini_train::cuda {

struct SumOp {
    template <typename T>
    __device__ __forceinline__ T operator()(T a, T b) const {
        return a + b;
    }
};
/// A NaN wins.
struct MaxOp {
    template <typename T>
    __device__ __forceinline__ T operator()(T a, T b) const {
        return (a > b || a != a) ? a : b;
    }
};
struct MinOp {
    template <typename T>
    __device__ __forceinline__ T operator()(T a, T b) const {
        return (a < b || a != a) ? a : b;
    }
};

/// Over the `kLanes` lanes that are next to each other, a power of two; each of them gets the result. All lanes of the
/// warp take part.
template <int kLanes = kWarp, typename T, typename Op>
__device__ __forceinline__ T WarpReduce(T value, Op op) {
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) {
        value = op(value, __shfl_xor_sync(0xffffffffU, value, step));
    }
    return value;
}
template <typename T>
__device__ __forceinline__ T WarpSum(T value) {
    return WarpReduce(value, SumOp());
}
template <typename T>
__device__ __forceinline__ T WarpMax(T value) {
    return WarpReduce(value, MaxOp());
}

/// Over a one-dimensional block of up to kBlock threads, a multiple of a warp; each of them gets the result, always of
/// the same order of additions. May be called again at once.
template <typename T, typename Op>
__device__ __forceinline__ T BlockReduce(T value, Op op, T identity) {
    __shared__ T of_warps[kBlock / kWarp];
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    value = WarpReduce(value, op);
    __syncthreads();  // whoever still reads what an earlier call left
    if (lane == 0) {
        of_warps[warp] = value;
    }
    __syncthreads();
    value = lane < static_cast<int>(blockDim.x) / kWarp ? of_warps[lane] : identity;
    // Every warp has its result in all lanes: kBlock / kWarp are a power of two, and lanes beyond hold the identity.
    return WarpReduce(value, op);
}

}  // namespace infini_train::cuda
