#include "infini_train/src/cuda/blas.h"

#include <cstddef>
#include <map>
#include <memory>
#include <utility>

#include "infini_train/include/common/error.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/cuda/current.h"
#include "infini_train/src/cuda/scratch.h"

namespace infini_train::cuda {
namespace {

// What NVIDIA recommends for its largest GPUs.
constexpr size_t kWorkspaceBytes = size_t{32} << 20;

void Check(cublasStatus_t status, const char *what) {
    if (status != CUBLAS_STATUS_SUCCESS) {
        ThrowBlas(status, what);
    }
}

class Blas {
public:
    explicit Blas(cudaStream_t stream) : workspace_(kWorkspaceBytes) {
        Check(cublasCreate(&handle_), "cublasCreate");
        try {
            Check(cublasSetStream(handle_, stream), "cublasSetStream");
            Check(cublasSetWorkspace(handle_, workspace_.data(), kWorkspaceBytes), "cublasSetWorkspace");
            // 16-bit products add up in float32, also where they are split.
            constexpr auto kMode =
                static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
            Check(cublasSetMathMode(handle_, kMode), "cublasSetMathMode");
        } catch (...) {
            (void)cublasDestroy(handle_);
            throw;
        }
    }
    ~Blas() { (void)cublasDestroy(handle_); }
    Blas(const Blas &) = delete;
    Blas &operator=(const Blas &) = delete;

    cublasHandle_t handle() const { return handle_; }

private:
    Scratch workspace_;
    cublasHandle_t handle_ = nullptr;
};

using Handles = std::map<std::pair<int, cudaStream_t>, std::unique_ptr<Blas>>;

Handles &ThreadHandles() {
    thread_local Handles handles;
    return handles;
}

}  // namespace

cublasHandle_t BlasHandle() {
    const cudaStream_t stream = CurrentStream();
    std::unique_ptr<Blas> &blas = ThreadHandles()[{CurrentDeviceIndex(), stream}];
    if (blas == nullptr) {
        blas = std::make_unique<Blas>(stream);
    }
    return blas->handle();
}

void ReleaseBlas(cudaStream_t stream) {
    ThreadHandles().erase({CurrentDeviceIndex(), stream});
}

void ThrowBlas(cublasStatus_t status, const std::string &what) {
    Throw<CudaError>("{}: cuBLAS: {}", what, cublasGetStatusString(status));
}

}  // namespace infini_train::cuda
