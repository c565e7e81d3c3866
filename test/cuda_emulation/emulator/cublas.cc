// The calls of cuBLAS that the library makes, as plain loops in double.

#include <algorithm>
#include <cstdint>
#include <vector>

#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "test/cuda_emulation/emulator/memory.h"
#include "test/cuda_emulation/emulator/shadow.h"
#include "test/cuda_emulation/emulator/state.h"
#include "test/cuda_emulation/emulator/stream.h"

namespace {

using cuda_emulation::Lock;
using cuda_emulation::Mutex;

struct Handle {
    cudaStream_t stream = nullptr;
};

Handle *Of(cublasHandle_t handle) {
    return reinterpret_cast<Handle *>(handle);
}

int64_t SizeOf(cudaDataType type) {
    return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}
bool IsKnown(cudaDataType type) {
    return type == CUDA_R_64F || type == CUDA_R_32F || type == CUDA_R_16F || type == CUDA_R_16BF;
}
double Get(const char *data, cudaDataType type, int64_t i) {
    switch (type) {
        case CUDA_R_64F:
            return reinterpret_cast<const double *>(data)[i];
        case CUDA_R_32F:
            return reinterpret_cast<const float *>(data)[i];
        case CUDA_R_16F:
            return __half2float(reinterpret_cast<const __half *>(data)[i]);
        default:
            return __bfloat162float(reinterpret_cast<const __nv_bfloat16 *>(data)[i]);
    }
}
void Set(char *data, cudaDataType type, int64_t i, double value) {
    switch (type) {
        case CUDA_R_64F:
            reinterpret_cast<double *>(data)[i] = value;
            return;
        case CUDA_R_32F:
            reinterpret_cast<float *>(data)[i] = static_cast<float>(value);
            return;
        case CUDA_R_16F:
            reinterpret_cast<__half *>(data)[i] = __float2half_rn(static_cast<float>(value));
            return;
        default:
            reinterpret_cast<__nv_bfloat16 *>(data)[i] = __float2bfloat16_rn(static_cast<float>(value));
    }
}

double ScalarOf(const void *scalar, cublasComputeType_t type) {
    return type == CUBLAS_COMPUTE_64F ? *static_cast<const double *>(scalar) : *static_cast<const float *>(scalar);
}

// A batch of column-major matrices.
struct Matrices {
    char *data;
    cudaDataType type;
    int64_t leading, stride;

    char *Batch(int64_t i) const { return data + i * stride * SizeOf(type); }
};

struct Product {
    bool transpose_a, transpose_b;
    int64_t m, n, k, batch;
    double alpha, beta;
    Matrices a, b, c;
};

void ReadColumns(const Matrices &matrix, int64_t batch, int64_t rows, int64_t columns, const char *who) {
    for (int64_t j = 0; j < columns; ++j) {
        cuda_emulation::ShadowRead(matrix.Batch(batch) + j * matrix.leading * SizeOf(matrix.type),
                                   static_cast<size_t>(rows * SizeOf(matrix.type)), who);
    }
}

// op(X) with the inner dimension k last.
std::vector<double> Gather(const Matrices &matrix, int64_t batch, int64_t outer, int64_t k, bool outer_is_row) {
    std::vector<double> values(static_cast<size_t>(outer * k));
    for (int64_t i = 0; i < outer; ++i) {
        for (int64_t l = 0; l < k; ++l) {
            const int64_t place = outer_is_row ? l * matrix.leading + i : i * matrix.leading + l;
            values[static_cast<size_t>(i * k + l)] = Get(matrix.Batch(batch), matrix.type, place);
        }
    }
    return values;
}

void Run(const Product &p) {
    const cuda_emulation::DeviceMemoryScope scope;
    for (int64_t batch = 0; batch < p.batch; ++batch) {
        if (p.k > 0) {
            ReadColumns(p.a, batch, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, "cuBLAS, for A");
            ReadColumns(p.b, batch, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, "cuBLAS, for B");
        }
        if (p.beta != 0) {
            ReadColumns(p.c, batch, p.m, p.n, "cuBLAS, for C");
        }
        const std::vector<double> a = Gather(p.a, batch, p.m, p.k, !p.transpose_a);
        const std::vector<double> b = Gather(p.b, batch, p.n, p.k, p.transpose_b);
        for (int64_t j = 0; j < p.n; ++j) {
            cuda_emulation::ShadowWrite(p.c.Batch(batch) + j * p.c.leading * SizeOf(p.c.type),
                                        static_cast<size_t>(p.m * SizeOf(p.c.type)), "cuBLAS, for C");
            for (int64_t i = 0; i < p.m; ++i) {
                const double *const row = a.data() + i * p.k, *const column = b.data() + j * p.k;
                double sum = 0;
                for (int64_t l = 0; l < p.k; ++l) {
                    sum += row[l] * column[l];
                }
                const int64_t place = j * p.c.leading + i;
                const double old = p.beta == 0 ? 0 : p.beta * Get(p.c.Batch(batch), p.c.type, place);
                Set(p.c.Batch(batch), p.c.type, place, p.alpha * sum + old);
            }
        }
    }
}

cublasStatus_t Queue(cublasHandle_t handle, const Product &p) {
    const Lock lock(Mutex());
    const int64_t rows_a = p.transpose_a ? p.k : p.m, rows_b = p.transpose_b ? p.n : p.k;
    if (p.m < 0 || p.n < 0 || p.k < 0 || p.batch < 0 || p.a.leading < std::max<int64_t>(1, rows_a) ||
        p.b.leading < std::max<int64_t>(1, rows_b) || p.c.leading < std::max<int64_t>(1, p.m)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (!IsKnown(p.a.type) || !IsKnown(p.b.type) || !IsKnown(p.c.type)) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    cuda_emulation::Submit(Of(handle)->stream, [p] { Run(p); });
    return CUBLAS_STATUS_SUCCESS;
}

char *Writable(const void *data) {
    return static_cast<char *>(const_cast<void *>(data));
}

}  // namespace

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle) {
    *handle = reinterpret_cast<cublasHandle_t>(new Handle);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
    delete Of(handle);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
    Of(handle)->stream = stream;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t /*handle*/, cublasMath_t /*mode*/) {
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t /*handle*/, void * /*workspace*/, size_t /*bytes*/) {
    return CUBLAS_STATUS_SUCCESS;
}
const char *cublasGetStatusString(cublasStatus_t status) {
    return status == CUBLAS_STATUS_SUCCESS ? "success" : "an error of the emulated cuBLAS";
}
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transpose_a, cublasOperation_t transpose_b, int m,
                            int n, int k, const void *alpha, const void *a, cudaDataType type_a, int leading_a,
                            const void *b, cudaDataType type_b, int leading_b, const void *beta, void *c,
                            cudaDataType type_c, int leading_c, cublasComputeType_t compute,
                            cublasGemmAlgo_t /*algorithm*/) {
    return Queue(handle, {transpose_a != CUBLAS_OP_N,
                          transpose_b != CUBLAS_OP_N,
                          m,
                          n,
                          k,
                          1,
                          ScalarOf(alpha, compute),
                          ScalarOf(beta, compute),
                          {Writable(a), type_a, leading_a, 0},
                          {Writable(b), type_b, leading_b, 0},
                          {Writable(c), type_c, leading_c, 0}});
}
cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transpose_a,
                                          cublasOperation_t transpose_b, int m, int n, int k, const void *alpha,
                                          const void *a, cudaDataType type_a, int leading_a, long long stride_a,
                                          const void *b, cudaDataType type_b, int leading_b, long long stride_b,
                                          const void *beta, void *c, cudaDataType type_c, int leading_c,
                                          long long stride_c, int batch, cublasComputeType_t compute,
                                          cublasGemmAlgo_t /*algorithm*/) {
    return Queue(handle, {transpose_a != CUBLAS_OP_N,
                          transpose_b != CUBLAS_OP_N,
                          m,
                          n,
                          k,
                          batch,
                          ScalarOf(alpha, compute),
                          ScalarOf(beta, compute),
                          {Writable(a), type_a, leading_a, stride_a},
                          {Writable(b), type_b, leading_b, stride_b},
                          {Writable(c), type_c, leading_c, stride_c}});
}

}  // extern "C"
