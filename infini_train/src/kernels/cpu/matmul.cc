#include "infini_train/src/kernels/matmul.h"

#include <algorithm>
#include <cstddef>

#include "infini_train/include/core/parallel.h"
#include "infini_train/include/dtype_dispatch.h"

#include "infini_train/src/kernels/cpu/gemm.h"
#include "infini_train/src/kernels/matmul_layout.h"
#include "infini_train/src/kernels/registry.h"

namespace infini_train::cpu {
namespace {

template <typename T>
void RunBatches(const kernels::MatmulBatch &batch, size_t level, BatchedGemmArgs<T> args) {
    if (level + 1 == batch.dims.size()) {
        args.batch = batch.dims[level];
        args.stride_a = batch.a[level];
        args.stride_b = batch.b[level];
        args.stride_c = batch.output[level];
        GemmBatched(args);
        return;
    }
    for (int64_t i = 0; i < batch.dims[level]; ++i) {
        RunBatches(batch, level + 1, args);
        args.gemm.a += batch.a[level];
        args.gemm.b += batch.b[level];
        args.gemm.c += batch.output[level];
    }
}

template <typename T>
void MatmulOf(TensorRef output, ConstTensorRef a, ConstTensorRef b, ConstTensorRef bias) {
    const kernels::MatrixLayout left(a), right(b);
    BatchedGemmArgs<T> args;
    GemmArgs<T> &gemm = args.gemm;
    gemm.m = a.dims[a.ndim - 2];
    gemm.k = a.dims[a.ndim - 1];
    gemm.n = b.dims[b.ndim - 1];
    gemm.trans_a = left.transposed;
    gemm.trans_b = right.transposed;
    gemm.a = a.Data<T>();
    gemm.lda = left.ld;
    gemm.b = b.Data<T>();
    gemm.ldb = right.ld;
    gemm.c = output.Data<T>();
    gemm.ldc = std::max<int64_t>(gemm.n, 1);
    gemm.bias = bias.Data<T>();
    const kernels::MatmulBatch batch(output, a, b);
    if (batch.dims.empty()) {
        Gemm(gemm);
    } else {
        RunBatches(batch, 0, args);
    }
}

void MatmulKernel(TensorRef output, ConstTensorRef a, ConstTensorRef b, ConstTensorRef bias) {
    if (output.num_elements == 0) {
        return;
    }
    switch (output.dtype) {
        case DataType::kINT32:
            return MatmulOf<int32_t>(output, a, b, bias);
        case DataType::kINT64:
            return MatmulOf<int64_t>(output, a, b, bias);
        default:
            return DispatchFloatingDtype(output.dtype, kernels::Matmul::kName,
                                         [&]<typename T>() { MatmulOf<T>(output, a, b, bias); });
    }
}

}  // namespace
}  // namespace infini_train::cpu

namespace infini_train::kernels {

void RegisterMatmulCpu() {
    RegisterKernel<Matmul>(DeviceType::kCPU, &cpu::MatmulKernel);
}

}  // namespace infini_train::kernels
