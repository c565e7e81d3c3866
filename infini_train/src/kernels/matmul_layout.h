#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "infini_train/src/kernels/tensor_ref.h"

namespace infini_train::kernels {

/// Which way a (rows, columns) matrix, the last two dims of an operand of Matmul, lies in memory: by rows, or
/// transposed by columns, `ld` elements from one to the next.
struct MatrixLayout {
    bool transposed = false;
    int64_t ld = 1;

    MatrixLayout(bool is_transposed, int64_t leading) : transposed(is_transposed), ld(leading) {}
    explicit MatrixLayout(const ConstTensorRef &x) {
        const int64_t rows = x.dims[x.ndim - 2], columns = x.dims[x.ndim - 1];
        const int64_t row = x.strides[x.ndim - 2], column = x.strides[x.ndim - 1];
        transposed = !(columns <= 1 || (column == 1 && (rows <= 1 || row >= columns)));
        // With one column any stride from row to row is a leading dimension; with one row there is no such stride.
        ld = transposed ? std::max({column, rows, int64_t{1}}) : std::max({rows > 1 ? row : 0, columns, int64_t{1}});
    }
};

/// The batch dimensions of all three operands of Matmul, neighbours merged where every operand allows it.
struct MatmulBatch {
    std::vector<int64_t> dims, output, a, b;

    MatmulBatch(const TensorRef &y, const ConstTensorRef &x, const ConstTensorRef &w) {
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

}  // namespace infini_train::kernels
