#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "infini_train/include/common/error.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/cuda/current.h"
#include "infini_train/src/cuda/error.h"
#include "infini_train/src/cuda/launch_shape.h"

namespace infini_train::cuda {
namespace {

// A multiprocessor holds up to 2048 threads; several waves even out blocks that take longer than others.
constexpr int64_t kBlocksPerMultiprocessor = 4 * (2048 / kBlock);
constexpr int64_t kMaxGrid = 65535;

bool SyncsKernels() {
    static const bool syncs = [] {
        const char *value = std::getenv("INFINI_TRAIN_SYNC_KERNELS");
        return value != nullptr && std::strcmp(value, "") != 0 && std::strcmp(value, "0") != 0;
    }();
    return syncs;
}

std::string Describe(const char *name, const LaunchShape &shape) {
    return fmt::format("{} [grid ({}, {}, {}), block ({}, {}, {}), {} bytes of shared memory]", name, shape.grid.x,
                       shape.grid.y, shape.grid.z, shape.block.x, shape.block.y, shape.block.z, shape.shared_bytes);
}

}  // namespace

unsigned GridFor(int64_t work, int64_t per_block) {
    const int64_t needed = (work + per_block - 1) / per_block;
    return static_cast<unsigned>(std::min({needed, kBlocksPerMultiprocessor * NumMultiprocessors(), kMaxGrid}));
}

namespace internal {

cudaLaunchConfig_t LaunchConfig(const LaunchShape &shape) {
    cudaLaunchConfig_t config{};
    config.gridDim = shape.grid;
    config.blockDim = shape.block;
    config.dynamicSmemBytes = shape.shared_bytes;
    config.stream = CurrentStream();
    return config;
}

void CheckLaunch(cudaError_t error, const char *name, const LaunchShape &shape) {
    if (error != cudaSuccess) [[unlikely]] {
        ThrowCuda(error, Describe(name, shape).c_str());
    }
    if (SyncsKernels()) [[unlikely]] {
        cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
        CheckCuda(cudaStreamIsCapturing(CurrentStream(), &capture), "cudaStreamIsCapturing");
        if (capture != cudaStreamCaptureStatusNone) {
            return;  // nothing runs yet
        }
        if (const cudaError_t run = cudaStreamSynchronize(CurrentStream()); run != cudaSuccess) {
            ThrowCuda(run, Describe(name, shape).c_str());
        }
    }
}

}  // namespace internal
}  // namespace infini_train::cuda
