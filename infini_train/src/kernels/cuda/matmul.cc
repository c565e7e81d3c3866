// Products of matrices: floats by cuBLAS, integers by a kernel (matmul_integer.cu).

#include "infini_train/src/kernels/matmul.h"

#include <limits>
#include <string>
#include <vector>

#include "infini_train/include/common/error.h"
#include "infini_train/include/core/matmul_precision.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/cuda/blas.h"
#include "infini_train/src/cuda/current.h"
#include "infini_train/src/cuda/error.h"
#include "infini_train/src/kernels/cuda/copy.h"
#include "infini_train/src/kernels/cuda/matmul_product.h"
#include "infini_train/src/kernels/matmul_layout.h"
#include "infini_train/src/kernels/registry.h"

namespace infini_train::cuda {
namespace {

using kernels::MatmulBatch;
using kernels::MatrixLayout;

std::string Describe(const Product &p) {
    return fmt::format("Matmul of ({}, {}) and ({}, {}), {} of them, {}", p.m, p.k, p.k, p.n, p.batch,
                       ToString(p.dtype));
}

int Int(int64_t value, const Product &p) {
    if (value > std::numeric_limits<int>::max()) {
        Throw<NotImplementedError>("{}: on a GPU sizes and strides of rows are expected to be below 2^31, got {}",
                                   Describe(p), value);
    }
    return static_cast<int>(value);
}

cudaDataType TypeOf(DataType dtype) {
    return dtype == DataType::kFLOAT64    ? CUDA_R_64F
           : dtype == DataType::kFLOAT32  ? CUDA_R_32F
           : dtype == DataType::kBFLOAT16 ? CUDA_R_16BF
                                          : CUDA_R_16F;
}

cublasComputeType_t ComputeTypeOf(DataType dtype) {
    if (dtype == DataType::kFLOAT64) {
        return CUBLAS_COMPUTE_64F;
    }
    const bool may_round = dtype == DataType::kFLOAT32 && GetFloat32MatmulPrecision() == MatmulPrecision::kHigh;
    return may_round ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

// cuBLAS counts by columns, so it is given the transposed product: b^T a^T, of matrices that to it lie transposed.
void RunBlas(const Product &p) {
    const cublasOperation_t op_a = p.a_layout.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t op_b = p.b_layout.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const int m = Int(p.m, p), n = Int(p.n, p), k = Int(p.k, p);
    const int lda = Int(p.a_layout.ld, p), ldb = Int(p.b_layout.ld, p);
    const double one64 = 1, old64 = p.adds ? 1 : 0;
    const float one32 = 1, old32 = p.adds ? 1 : 0;
    const bool is_double = p.dtype == DataType::kFLOAT64;
    const void *const one = is_double ? static_cast<const void *>(&one64) : &one32;
    const void *const old = is_double ? static_cast<const void *>(&old64) : &old32;
    const cudaDataType type = TypeOf(p.dtype), output_type = TypeOf(p.output_dtype);
    const cublasComputeType_t compute = ComputeTypeOf(p.dtype);
    const cublasStatus_t status =
        p.batch == 1 ? cublasGemmEx(BlasHandle(), op_b, op_a, n, m, k, one, p.b, type, ldb, p.a, type, lda, old, p.c,
                                    output_type, n, compute, CUBLAS_GEMM_DEFAULT)
                     : cublasGemmStridedBatchedEx(BlasHandle(), op_b, op_a, n, m, k, one, p.b, type, ldb, p.stride_b,
                                                  p.a, type, lda, p.stride_a, old, p.c, output_type, n, p.stride_c,
                                                  Int(p.batch, p), compute, CUBLAS_GEMM_DEFAULT);
    if (status != CUBLAS_STATUS_SUCCESS) {
        ThrowBlas(status, Describe(p));
    }
}

void RunBatches(const MatmulBatch &batch, size_t level, Product p) {
    if (level + 1 == batch.dims.size()) {
        p.batch = batch.dims[level];
        p.stride_a = batch.a[level];
        p.stride_b = batch.b[level];
        p.stride_c = batch.output[level];
        RunProduct(p);
        return;
    }
    const auto size = static_cast<int64_t>(SizeOf(p.dtype));
    for (int64_t i = 0; i < batch.dims[level]; ++i) {
        RunBatches(batch, level + 1, p);
        p.a += batch.a[level] * size;
        p.b += batch.b[level] * size;
        p.c += batch.output[level] * size;
    }
}

void RunMatmul(TensorRef output, ConstTensorRef a, ConstTensorRef b, ConstTensorRef bias) {
    if (output.num_elements == 0) {
        return;
    }
    const Product p{.m = a.dims[a.ndim - 2],
                    .n = b.dims[b.ndim - 1],
                    .k = a.dims[a.ndim - 1],
                    .a_layout = MatrixLayout(a),
                    .b_layout = MatrixLayout(b),
                    .a = a.Data<char>(),
                    .b = b.Data<char>(),
                    .c = output.Data<char>(),
                    .dtype = output.dtype,
                    .adds = bias.data != nullptr};
    if (p.adds) {
        // The product is added to the bias, which was there before it: one rounding, as if it came after.
        std::vector<int64_t> strides(static_cast<size_t>(output.ndim), 0);
        strides.back() = 1;
        CopyKernel(output,
                   {bias.data, output.dims, strides.data(), output.ndim, bias.dtype, output.num_elements, false});
    }
    if (p.k == 0) {
        if (!p.adds) {
            const size_t bytes = static_cast<size_t>(output.num_elements) * SizeOf(output.dtype);
            CheckCuda(cudaMemsetAsync(output.data, 0, bytes, CurrentStream()), "Matmul: cudaMemsetAsync");
        }
        return;
    }
    const MatmulBatch batch(output, a, b);
    if (batch.dims.empty()) {
        RunProduct(p);
    } else {
        RunBatches(batch, 0, p);
    }
}

}  // namespace

void RunProduct(const Product &p) {
    if (IsFloatingPoint(p.dtype)) {
        RunBlas(p);
    } else {
        RunIntegers(p);
    }
}

}  // namespace infini_train::cuda

namespace infini_train::kernels {

void RegisterMatmulCuda() {
    RegisterKernel<Matmul>(DeviceType::kCUDA, &cuda::RunMatmul);
}

}  // namespace infini_train::kernels
