#include "infini_train/src/cuda/error.h"

#include "infini_train/include/common/error.h"

#include "infini_train/src/common/format.h"

namespace infini_train::cuda {
namespace {

// Errors of a kernel that ran: the context is lost, and whatever comes next fails with the same.
bool IsOfAnEarlierKernel(cudaError_t error) {
    switch (error) {
        case cudaErrorIllegalAddress:
        case cudaErrorMisalignedAddress:
        case cudaErrorInvalidAddressSpace:
        case cudaErrorInvalidPc:
        case cudaErrorIllegalInstruction:
        case cudaErrorHardwareStackError:
        case cudaErrorLaunchFailure:
        case cudaErrorLaunchTimeout:
        case cudaErrorAssert:
            return true;
        default:
            return false;
    }
}

}  // namespace

void ThrowCuda(cudaError_t error, const char *what) {
    (void)cudaGetLastError();
    Throw<CudaError>("{}: {}: {}{}", what, cudaGetErrorName(error), cudaGetErrorString(error),
                     IsOfAnEarlierKernel(error) ? "; kernels run later than they are called: with "
                                                  "INFINI_TRAIN_SYNC_KERNELS=1 the one that failed is named"
                                                : "");
}

void ThrowDtype(const char *kernel, const char *expected, DataType dtype) {
    Throw<DtypeError>("{}: expected {}, got {}", kernel, expected, ToString(dtype));
}

}  // namespace infini_train::cuda
