#pragma once

#include <cstdint>

#include "infini_train/include/datatype.h"

namespace infini_train::cpu {

/// A matrix product on row-major matrices: C (m, n) = op(A) op(B) [+ C] [+ bias], where op(A) is (m, k) and op(B) is
/// (k, n). A is stored as (m, k), or as (k, m) with `trans_a`, its rows `lda` elements apart; B and C likewise. Neither
/// A nor B may overlap C.
///
/// 16-bit types are multiplied and summed in float and rounded once. k = 0 gives zeros (or the bias). NaN and infinity
/// propagate as in IEEE. An element's value depends on the shapes and the instruction set only, not on the number of
/// threads. Throws OutOfMemoryError if there is no room to work in.
template <typename T>
struct GemmArgs {
    bool trans_a = false, trans_b = false;
    int64_t m = 0, n = 0, k = 0;
    const T *a = nullptr;
    int64_t lda = 0;
    const T *b = nullptr;
    int64_t ldb = 0;
    T *c = nullptr;
    int64_t ldc = 0;
    bool accumulate = false;  // add to what is in C
    const T *bias = nullptr;  // length n, added to each row; only without `accumulate`
};

void Gemm(const GemmArgs<float> &args);
void Gemm(const GemmArgs<double> &args);
void Gemm(const GemmArgs<BFloat16> &args);
void Gemm(const GemmArgs<Float16> &args);
void Gemm(const GemmArgs<int32_t> &args);  // wraps on overflow
void Gemm(const GemmArgs<int64_t> &args);

/// `batch` products like `gemm`, each `stride_*` elements after the last; a stride of 0 uses an input again.
template <typename T>
struct BatchedGemmArgs {
    GemmArgs<T> gemm;
    int64_t batch = 0;
    int64_t stride_a = 0, stride_b = 0, stride_c = 0;
};

/// Many small products run one a thread, few large ones in parallel inside.
void GemmBatched(const BatchedGemmArgs<float> &args);
void GemmBatched(const BatchedGemmArgs<double> &args);
void GemmBatched(const BatchedGemmArgs<BFloat16> &args);
void GemmBatched(const BatchedGemmArgs<Float16> &args);
void GemmBatched(const BatchedGemmArgs<int32_t> &args);
void GemmBatched(const BatchedGemmArgs<int64_t> &args);

}  // namespace infini_train::cpu
