#pragma once

#include <string>

#include <cublas_v2.h>

namespace infini_train::cuda {

/// The cuBLAS handle of this thread for CurrentStream(), with a workspace of its own: products on other streams may run
/// at the same time.
cublasHandle_t BlasHandle();

/// Gives up this thread's handle for a stream of the current device that is about to be destroyed.
void ReleaseBlas(cudaStream_t stream);

/// Throws CudaError: `what`, then the status.
[[noreturn]] void ThrowBlas(cublasStatus_t status, const std::string &what);

}  // namespace infini_train::cuda
