#include "infini_train/src/kernels/matmul.h"

#include <algorithm>
#include <vector>

#include "infini_train/include/core/parallel.h"
#include "infini_train/include/dtype_dispatch.h"

#include "infini_train/src/kernels/cpu/gemm.h"
#include "infini_train/src/kernels/registry.h"

namespace infini_train::cpu {
namespace {

struct Matrix {
    bool transposed;
    int64_t ld;
};

// Which way a (rows, columns) matrix lies in memory.
Matrix LayoutOf(const ConstTensorRef &x) {
    const int64_t rows = x.dims[x.ndim - 2], columns = x.dims[x.ndim - 1];
    const int64_t row = x.strides[x.ndim - 2], column = x.strides[x.ndim - 1];
    if (columns <= 1 || (column == 1 && (rows <= 1 || row >= columns))) {
        // With one column any stride from row to row is a leading dimension; with one row there is no such stride.
        return {false, std::max({rows > 1 ? row : 0, columns, int64_t{1}})};
    }
    return {true, std::max({column, rows, int64_t{1}})};
}

// The batch dimensions of all three operands, neighbours merged where every operand allows it.
struct Batch {
    std::vector<int64_t> dims, output, a, b;

    Batch(const TensorRef &y, const ConstTensorRef &x, const ConstTensorRef &w) {
        for (int i = 0; i + 2 < y.ndim; ++i) {
            const int64_t n = y.dims[i];
            if (n == 1) {
                continue;
            }
            if (!dims.empty() && output.back() == n * y.strides[i] && a.back() == n * x.strides[i] &&
                b.back() == n * w.strides[i]) {
                dims.back() *= n;
                output.back() = y.strides[i];
                a.back() = x.strides[i];
                b.back() = w.strides[i];
            } else {
                dims.push_back(n);
                output.push_back(y.strides[i]);
                a.push_back(x.strides[i]);
                b.push_back(w.strides[i]);
            }
        }
    }
};

template <typename T>
void RunBatches(const Batch &batch, size_t level, BatchedGemmArgs<T> args) {
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
    const Matrix left = LayoutOf(a), right = LayoutOf(b);
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
    const Batch batch(output, a, b);
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
