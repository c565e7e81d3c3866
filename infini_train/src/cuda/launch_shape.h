#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

namespace infini_train::cuda {

/// The threads of a block: every kernel says __launch_bounds__(kBlock).
inline constexpr int kBlock = 256;
inline constexpr int kWarp = 32;

/// Without asking for more, a kernel may have this much dynamic shared memory.
inline constexpr size_t kDefaultSharedBytes = 48 * 1024;

struct LaunchShape {
    dim3 grid;
    dim3 block = kBlock;
    size_t shared_bytes = 0;
};

/// The blocks of a grid-stride loop over `work` items of which a block takes `per_block` at a time: enough for all, but
/// no more than a few for each place that the device has for a block. 0 for no work.
unsigned GridFor(int64_t work, int64_t per_block = kBlock);

namespace internal {
cudaLaunchConfig_t LaunchConfig(const LaunchShape &shape);
/// Throws CudaError for a refused launch; with INFINI_TRAIN_SYNC_KERNELS=1 waits, and throws for an error of the run.
void CheckLaunch(cudaError_t error, const char *name, const LaunchShape &shape);
}  // namespace internal

}  // namespace infini_train::cuda
