#pragma once

#include <cuda_runtime_api.h>

#include "infini_train/include/datatype.h"

namespace infini_train::cuda {

/// Throws CudaError: `what`, a call or a kernel, then the error's name and text. The error is taken from the runtime,
/// so that the next call doesn't report it again.
[[noreturn]] void ThrowCuda(cudaError_t error, const char *what);

/// Throws CudaError for anything but cudaSuccess.
inline void CheckCuda(cudaError_t error, const char *what) {
    if (error != cudaSuccess) [[unlikely]] {
        ThrowCuda(error, what);
    }
}

/// Throws DtypeError: `<kernel>: expected <what>, got <type>`.
[[noreturn]] void ThrowDtype(const char *kernel, const char *expected, DataType dtype);

}  // namespace infini_train::cuda
