#pragma once

#include <cstdint>

#include "infini_train/include/datatype.h"

#include "infini_train/src/kernels/matmul_layout.h"

namespace infini_train::cuda {

/// Products of a batch of matrices, (m, k) times (k, n). A batch of several dims is a loop around one of the last.
struct Product {
    int64_t m, n, k;
    kernels::MatrixLayout a_layout, b_layout;
    const char *a, *b;
    char *c;
    int64_t batch = 1, stride_a = 0, stride_b = 0, stride_c = 0;  ///< in elements
    DataType dtype;
    bool adds = false;              ///< to what the output holds
    DataType output_dtype = dtype;  ///< float32 for 16-bit factors, if it isn't theirs
};

/// Any data type of Matmul.
void RunProduct(const Product &p);
/// For int32 and int64, which wrap.
void RunIntegers(const Product &p);

}  // namespace infini_train::cuda
