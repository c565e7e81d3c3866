// The calls of cuBLAS that the library makes: plain loops, in double.

#include <cstdint>
#include <vector>

#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "test/cuda_emulation/checker/checker.h"
#include "test/cuda_emulation/runtime/calls.h"
#include "test/cuda_emulation/runtime/memory.h"

namespace cuda_emulation {
namespace {

struct Handle {
    cudaStream_t stream = nullptr;
};

// Column-major, as Fortran has it.
struct Matrix {
    const void *data;
    cudaDataType type;
    int leading;
    long long stride;  // from one matrix of a batch to the next
};

struct Product {
    cublasOperation_t a_operation, b_operation;
    int m, n, k, batch;
    Matrix a, b, c;
    double alpha, beta;
};

size_t SizeOf(cudaDataType type) {
    return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

double Get(const void *data, cudaDataType type, int64_t i) {
    switch (type) {
        case CUDA_R_64F:
            return static_cast<const double *>(data)[i];
        case CUDA_R_32F:
            return static_cast<const float *>(data)[i];
        case CUDA_R_16F:
            return __half2float(static_cast<const __half *>(data)[i]);
        default:
            return __bfloat162float(static_cast<const __nv_bfloat16 *>(data)[i]);
    }
}

void Put(void *data, cudaDataType type, int64_t i, double value) {
    switch (type) {
        case CUDA_R_64F:
            static_cast<double *>(data)[i] = value;
            break;
        case CUDA_R_32F:
            static_cast<float *>(data)[i] = static_cast<float>(value);
            break;
        case CUDA_R_16F:
            static_cast<__half *>(data)[i] = __float2half_rn(static_cast<float>(value));
            break;
        default:
            static_cast<__nv_bfloat16 *>(data)[i] = __float2bfloat16_rn(static_cast<float>(value));
    }
}

const char *Advance(const void *data, cudaDataType type, int64_t elements) {
    return static_cast<const char *>(data) + elements * static_cast<int64_t>(SizeOf(type));
}

// A matrix of rows x columns as it lies, dense in double: [column][row], or [row][column] if `transposed`.
std::vector<double> Read(const Matrix &matrix, int64_t batch, int rows, int columns, bool transposed,
                         const char *what) {
    const void *const data = Advance(matrix.data, matrix.type, batch * matrix.stride);
    std::vector<double> values(static_cast<size_t>(rows) * static_cast<size_t>(columns));
    for (int64_t j = 0; j < columns; ++j) {
        checker::OnHostRead(Advance(data, matrix.type, j * matrix.leading), rows * SizeOf(matrix.type), what);
        for (int64_t i = 0; i < rows; ++i) {
            values[static_cast<size_t>(transposed ? i * columns + j : j * rows + i)] =
                Get(data, matrix.type, j * matrix.leading + i);
        }
    }
    return values;
}

void RunOne(const Product &p, int64_t batch) {
    // a as [k][m], b as [n][k]: the innermost loop goes along m.
    const bool a_lies = p.a_operation == CUBLAS_OP_N, b_lies = p.b_operation == CUBLAS_OP_N;
    const auto a = Read(p.a, batch, a_lies ? p.m : p.k, a_lies ? p.k : p.m, !a_lies, "read by cuBLAS (A)");
    const auto b = Read(p.b, batch, b_lies ? p.k : p.n, b_lies ? p.n : p.k, !b_lies, "read by cuBLAS (B)");
    void *const c = const_cast<char *>(Advance(p.c.data, p.c.type, batch * p.c.stride));
    std::vector<double> sums(static_cast<size_t>(p.m));
    for (int64_t j = 0; j < p.n; ++j) {
        std::fill(sums.begin(), sums.end(), 0.0);
        for (int64_t l = 0; l < p.k; ++l) {
            const double factor = b[static_cast<size_t>(j * p.k + l)];
            const double *const column = &a[static_cast<size_t>(l * p.m)];
            for (int64_t i = 0; i < p.m; ++i) {
                sums[static_cast<size_t>(i)] += column[i] * factor;
            }
        }
        const char *const place = Advance(c, p.c.type, j * p.c.leading);
        if (p.beta != 0) {
            checker::OnHostRead(place, p.m * SizeOf(p.c.type), "read by cuBLAS (C, as beta isn't 0)");
        }
        checker::OnHostWrite(place, p.m * SizeOf(p.c.type));
        for (int64_t i = 0; i < p.m; ++i) {
            const int64_t at = j * p.c.leading + i;
            const double before = p.beta == 0 ? 0 : p.beta * Get(c, p.c.type, at);
            Put(c, p.c.type, at, p.alpha * sums[static_cast<size_t>(i)] + before);
        }
    }
}

// The combinations of types that cuBLAS has for these computations, and that the library might use.
bool IsSupported(const Product &p, cublasComputeType_t compute) {
    const cudaDataType ab = p.a.type, c = p.c.type;
    if (p.b.type != ab) {
        return false;
    }
    switch (compute) {
        case CUBLAS_COMPUTE_64F:
            return ab == CUDA_R_64F && c == CUDA_R_64F;
        case CUBLAS_COMPUTE_32F_FAST_TF32:
            return ab == CUDA_R_32F && c == CUDA_R_32F;
        case CUBLAS_COMPUTE_32F:
            return (ab == CUDA_R_32F && c == ab) ||
                   ((ab == CUDA_R_16F || ab == CUDA_R_16BF) && (c == ab || c == CUDA_R_32F));
        default:
            return false;
    }
}

bool IsValid(const Product &p) {
    const auto fits = [](int leading, int rows) { return leading >= (rows > 1 ? rows : 1); };
    return p.m >= 0 && p.n >= 0 && p.k >= 0 && p.batch >= 0 && p.a_operation <= CUBLAS_OP_T &&
           p.b_operation <= CUBLAS_OP_T && fits(p.a.leading, p.a_operation == CUBLAS_OP_N ? p.m : p.k) &&
           fits(p.b.leading, p.b_operation == CUBLAS_OP_N ? p.k : p.n) && fits(p.c.leading, p.m);
}

double Scalar(const void *value, cublasComputeType_t compute) {
    return compute == CUBLAS_COMPUTE_64F ? *static_cast<const double *>(value) : *static_cast<const float *>(value);
}

cublasStatus_t Run(cublasHandle_t handle, const Product &product, cublasComputeType_t compute) {
    const std::lock_guard<std::recursive_mutex> lock(RuntimeMutex());
    if (handle == nullptr) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    if (!IsValid(product)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (!IsSupported(product, compute)) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    const StreamPtr stream = FindStream(reinterpret_cast<Handle *>(handle)->stream);
    if (stream == nullptr || StickyError() != cudaSuccess) {
        return CUBLAS_STATUS_EXECUTION_FAILED;
    }
    Submit(stream, [product] {
        if (StickyError() != cudaSuccess) {
            return;
        }
        const DeviceScope scope;
        for (int64_t batch = 0; batch < product.batch; ++batch) {
            RunOne(product, batch);
        }
    });
    return StickyError() == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace
}  // namespace cuda_emulation

using namespace cuda_emulation;  // NOLINT(google-build-using-namespace)

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle) {
    *handle = reinterpret_cast<cublasHandle_t>(new Handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
    delete reinterpret_cast<Handle *>(handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
    if (handle == nullptr) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    reinterpret_cast<Handle *>(handle)->stream = stream;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t /*mode*/) {
    return handle == nullptr ? CUBLAS_STATUS_NOT_INITIALIZED : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t bytes) {
    if (handle == nullptr) {
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    const bool is_aligned = reinterpret_cast<uintptr_t>(workspace) % 256 == 0;
    return is_aligned && (bytes == 0 || IsAllocated(workspace, bytes)) ? CUBLAS_STATUS_SUCCESS
                                                                       : CUBLAS_STATUS_INVALID_VALUE;
}

const char *cublasGetStatusName(cublasStatus_t status) {
    switch (status) {
        case CUBLAS_STATUS_SUCCESS:
            return "CUBLAS_STATUS_SUCCESS";
        case CUBLAS_STATUS_NOT_INITIALIZED:
            return "CUBLAS_STATUS_NOT_INITIALIZED";
        case CUBLAS_STATUS_INVALID_VALUE:
            return "CUBLAS_STATUS_INVALID_VALUE";
        case CUBLAS_STATUS_NOT_SUPPORTED:
            return "CUBLAS_STATUS_NOT_SUPPORTED";
        case CUBLAS_STATUS_EXECUTION_FAILED:
            return "CUBLAS_STATUS_EXECUTION_FAILED";
        default:
            return "CUBLAS_STATUS_INTERNAL_ERROR";
    }
}

const char *cublasGetStatusString(cublasStatus_t status) {
    return cublasGetStatusName(status);
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t a_operation, cublasOperation_t b_operation, int m,
                            int n, int k, const void *alpha, const void *a, cudaDataType a_type, int lda, const void *b,
                            cudaDataType b_type, int ldb, const void *beta, void *c, cudaDataType c_type, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t /*algorithm*/) {
    return Run(handle,
               {a_operation,
                b_operation,
                m,
                n,
                k,
                1,
                {a, a_type, lda, 0},
                {b, b_type, ldb, 0},
                {c, c_type, ldc, 0},
                Scalar(alpha, compute),
                Scalar(beta, compute)},
               compute);
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t a_operation,
                                          cublasOperation_t b_operation, int m, int n, int k, const void *alpha,
                                          const void *a, cudaDataType a_type, int lda, long long a_stride,
                                          const void *b, cudaDataType b_type, int ldb, long long b_stride,
                                          const void *beta, void *c, cudaDataType c_type, int ldc, long long c_stride,
                                          int batch, cublasComputeType_t compute, cublasGemmAlgo_t /*algorithm*/) {
    return Run(handle,
               {a_operation,
                b_operation,
                m,
                n,
                k,
                batch,
                {a, a_type, lda, a_stride},
                {b, b_type, ldb, b_stride},
                {c, c_type, ldc, c_stride},
                Scalar(alpha, compute),
                Scalar(beta, compute)},
               compute);
}

}  // extern "C"
