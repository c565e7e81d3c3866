// Kernels for the tests of the runtime's calls.

#include "infini_train/src/kernels/cuda/launch.cuh"
#include "test/cuda_emulation/faults/launches.h"

namespace infini_train::test {
namespace {

using cuda::kBlock;

__global__ void __launch_bounds__(kBlock) Affine(int *values, int count, int factor, int addend) {
    for (int64_t i = cuda::GridIndex(); i < count; i += cuda::GridStep()) {
        values[i] = values[i] * factor + addend;
    }
}

__global__ void __launch_bounds__(kBlock) Wild(const int *values) {
    if (*values == 0) {
        __trap();
    }
}

cudaLaunchConfig_t Config(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream) {
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    return config;
}

}  // namespace

cudaError_t LaunchAffine(int *values, int count, int factor, int addend, cudaStream_t stream) {
    const cudaLaunchConfig_t config = Config(2, kBlock, 0, stream);
    return cudaLaunchKernelEx(&config, Affine, values, count, factor, addend);
}

cudaError_t LaunchShaped(dim3 grid, dim3 block, size_t shared_bytes, int *values) {
    const cudaLaunchConfig_t config = Config(grid, block, shared_bytes, nullptr);
    return cudaLaunchKernelEx(&config, Affine, values, 1, 1, 0);
}

cudaError_t AllowShared(int bytes) {
    return cudaFuncSetAttribute(Affine, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}

cudaError_t LaunchWild(cudaStream_t stream) {
    const cudaLaunchConfig_t config = Config(1, kBlock, 0, stream);
    return cudaLaunchKernelEx(&config, Wild, static_cast<const int *>(nullptr));
}

}  // namespace infini_train::test
