#include "infini_train/src/cuda/scratch.h"

#include "infini_train/include/core/allocator.h"
#include "infini_train/include/device.h"

#include "infini_train/src/cuda/current.h"
#include "infini_train/src/cuda/error.h"

namespace infini_train::cuda {

Scratch::Scratch(size_t bytes)
    : device_(CurrentDeviceIndex()),
      bytes_(bytes),
      data_(GetAllocator(Device(DeviceType::kCUDA, device_)).Allocate(bytes)) {}

Scratch::~Scratch() {
    GetAllocator(Device(DeviceType::kCUDA, device_)).Deallocate(data_, bytes_);
}

void ReadBackBytes(void *destination, const void *source, size_t bytes) {
    const cudaStream_t stream = CurrentStream();
    CheckCuda(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
    CheckCuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

}  // namespace infini_train::cuda
