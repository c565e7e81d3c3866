#pragma once

#include <cstdint>
#include <utility>

#include <cuda_runtime.h>

#include "infini_train/src/cuda/current.h"
#include "infini_train/src/cuda/error.h"
#include "infini_train/src/cuda/launch_shape.h"

/// The dynamic shared memory of every kernel: LaunchShape::shared_bytes of it.
extern __shared__ __align__(16) unsigned char dynamic_shared[];

namespace infini_train::cuda {

/// Queues `kernel` on CurrentStream(). Errors name the kernel, its grid and its block. A grid without blocks is nothing
/// to do.
template <typename... P, typename... A>
void Launch(const char *name, const LaunchShape &shape, void (*kernel)(P...), A &&...args) {
    if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) {
        return;
    }
    if (shape.shared_bytes > kDefaultSharedBytes) {
        const auto bytes = static_cast<int>(shape.shared_bytes);
        const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
        if (error != cudaSuccess) {
            internal::CheckLaunch(error, name, shape);
        }
    }
    const cudaLaunchConfig_t config = internal::LaunchConfig(shape);
    internal::CheckLaunch(cudaLaunchKernelEx(&config, kernel, std::forward<A>(args)...), name, shape);
}

/// The first item of a grid-stride loop, and its step, for a one-dimensional grid and block.
__device__ __forceinline__ int64_t GridIndex() {
    return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ int64_t GridStep() {
    return static_cast<int64_t>(gridDim.x) * blockDim.x;
}

}  // namespace infini_train::cuda
