#include <map>
#include <memory>

#include <cuda_runtime_api.h>

#include "test/cuda_emulation/checker/checker.h"
#include "test/cuda_emulation/runtime/calls.h"
#include "test/cuda_emulation/runtime/memory.h"
#include "test/cuda_emulation/runtime/options.h"

namespace cuda_emulation {
namespace {

constexpr size_t kDefaultSharedBytes = 48 * 1024;
constexpr size_t kMaxArgumentBytes = 4096;

// Dynamic shared memory by kernel, as cudaFuncSetAttribute allows.
std::map<const void *, int> &SharedLimits() {
    static std::map<const void *, int> limits;
    return limits;
}

cudaError_t CheckShape(const cudaLaunchConfig_t &config, const void *kernel) {
    const dim3 grid = config.gridDim, dims = config.blockDim;
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffffU || grid.y > 65535 || grid.z > 65535) {
        return cudaErrorInvalidConfiguration;
    }
    if (dims.x == 0 || dims.y == 0 || dims.z == 0 || dims.x > 1024 || dims.y > 1024 || dims.z > 64 ||
        uint64_t{dims.x} * dims.y * dims.z > 1024) {
        return cudaErrorInvalidConfiguration;
    }
    if (dims.x * dims.y * dims.z > CurrentOptions().launch_bound) {
        return cudaErrorLaunchOutOfResources;
    }
    const auto found = SharedLimits().find(kernel);
    const size_t limit = found != SharedLimits().end() ? static_cast<size_t>(found->second) : kDefaultSharedBytes;
    return config.dynamicSmemBytes > limit ? cudaErrorInvalidValue : cudaSuccess;
}

}  // namespace

cudaError_t Launch(const cudaLaunchConfig_t &config, const void *kernel, size_t argument_bytes, Closure *call,
                   size_t call_bytes) {
    const std::shared_ptr<Closure> owned(call);
    CUDA_EMULATION_CALL();
    const StreamPtr stream = FindStream(config.stream);
    if (stream == nullptr) {
        return Return(cudaErrorInvalidResourceHandle);
    }
    if (const cudaError_t error = CheckShape(config, kernel); error != cudaSuccess) {
        return Return(error);
    }
    if (stream->device != CurrentDevice()) {
        return Return(cudaErrorInvalidResourceHandle);
    }
    if (argument_bytes > kMaxArgumentBytes) {
        return Return(cudaErrorInvalidValue);  // nvcc doesn't compile such a kernel
    }
    const GridShape shape{config.gridDim, config.blockDim, config.dynamicSmemBytes, stream->device, call_bytes};
    Submit(stream, [=] {
        if (StickyError() == cudaSuccess) {
            const DeviceScope scope;
            RunGrid(kernel, shape, *owned);
        }
    });
    return Finish();
}

}  // namespace cuda_emulation

extern "C" {

cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute attribute, int value) {
    CUDA_EMULATION_CALL();
    if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
        if (value < 0 || value > cuda_emulation::CurrentOptions().shared_bytes) {
            return cuda_emulation::Return(cudaErrorInvalidValue);
        }
        cuda_emulation::SharedLimits()[kernel] = value;
    }
    return cudaSuccess;
}

}  // extern "C"
