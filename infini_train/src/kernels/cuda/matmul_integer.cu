#include "infini_train/src/kernels/cuda/launch.cuh"
#include "infini_train/src/kernels/cuda/matmul_product.h"

namespace infini_train::cuda {
namespace {

using kernels::MatrixLayout;

struct IntegerMatrix {
    int64_t row_stride, column_stride, batch_stride;
};

IntegerMatrix IntegersOf(const MatrixLayout &layout, int64_t batch_stride) {
    return {layout.transposed ? 1 : layout.ld, layout.transposed ? layout.ld : 1, batch_stride};
}

// Unsigned, so that it wraps.
template <typename T>
__global__ void __launch_bounds__(kBlock)
    IntegerKernel(T *c, const T *a, const T *b, IntegerMatrix a_at, IntegerMatrix b_at, int64_t m, int64_t n, int64_t k,
                  int64_t batch, int64_t stride_c, bool adds) {
    for (int64_t i = GridIndex(); i < batch * m * n; i += GridStep()) {
        const int64_t column = i % n, row = i / n % m, which = i / (m * n);
        const T *const left = a + which * a_at.batch_stride + row * a_at.row_stride;
        const T *const right = b + which * b_at.batch_stride + column * b_at.column_stride;
        T *const to = c + which * stride_c + row * n + column;
        T sum = adds ? *to : T{0};
        for (int64_t j = 0; j < k; ++j) {
            sum += left[j * a_at.column_stride] * right[j * b_at.row_stride];
        }
        *to = sum;
    }
}

template <typename T>
void Run(const Product &p) {
    Launch("Matmul", {GridFor(p.batch * p.m * p.n)}, IntegerKernel<T>, reinterpret_cast<T *>(p.c),
           reinterpret_cast<const T *>(p.a), reinterpret_cast<const T *>(p.b), IntegersOf(p.a_layout, p.stride_a),
           IntegersOf(p.b_layout, p.stride_b), p.m, p.n, p.k, p.batch, p.stride_c, p.adds);
}

}  // namespace

void RunIntegers(const Product &p) {
    if (p.dtype == DataType::kINT32) {
        Run<uint32_t>(p);
    } else {
        Run<uint64_t>(p);
    }
}

}  // namespace infini_train::cuda
