#pragma once

#include <cuda_runtime_api.h>

namespace infini_train::test {

/// values[i] = values[i] * factor + addend, for `count` of them, on a stream.
cudaError_t LaunchAffine(int *values, int count, int factor, int addend, cudaStream_t stream);
/// The same kernel in any shape.
cudaError_t LaunchShaped(dim3 grid, dim3 block, size_t shared_bytes, int *values);
cudaError_t AllowShared(int bytes);
/// Reads where nothing is.
cudaError_t LaunchWild(cudaStream_t stream);

}  // namespace infini_train::test
