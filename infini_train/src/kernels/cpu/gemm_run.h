// Chooses the way to compute a matrix product. Compiled once for each Highway target, hence the toggled include guard.

#if defined(INFINI_TRAIN_SRC_KERNELS_CPU_GEMM_RUN_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef INFINI_TRAIN_SRC_KERNELS_CPU_GEMM_RUN_H_
#undef INFINI_TRAIN_SRC_KERNELS_CPU_GEMM_RUN_H_
#else
#define INFINI_TRAIN_SRC_KERNELS_CPU_GEMM_RUN_H_
#endif

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <hwy/highway.h>

#include "infini_train/include/core/parallel.h"

#include "infini_train/src/kernels/cpu/gemm.h"
#include "infini_train/src/kernels/cpu/gemm_blocked.h"
#include "infini_train/src/kernels/cpu/gemm_skinny.h"
#include "infini_train/src/kernels/cpu/gemm_workspace.h"

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

/// Ends a product of rows [0, rows) and columns [0, columns) at C's element (row, column): adds what is asked for to
/// the sums sums[i * sum_row + j * sum_column] and rounds them once.
template <typename T, typename Acc>
void StoreSums(const GemmArgs<T> &g, int64_t row, int64_t column, int64_t rows, int64_t columns, const Acc *sums,
               int64_t sum_row, int64_t sum_column) {
    const int64_t grain = std::max<int64_t>(1, (int64_t{1} << 15) / columns);
    ParallelFor(0, rows, grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            T *HWY_RESTRICT c = g.c + (row + i) * g.ldc + column;
            const Acc *HWY_RESTRICT from = sums + i * sum_row;
            const T *bias = g.bias == nullptr ? nullptr : g.bias + column;
            if (g.accumulate) {
                for (int64_t j = 0; j < columns; ++j) {
                    c[j] = static_cast<T>(from[j * sum_column] + static_cast<Acc>(c[j]));
                }
            } else if (bias != nullptr) {
                for (int64_t j = 0; j < columns; ++j) {
                    c[j] = static_cast<T>(from[j * sum_column] + static_cast<Acc>(bias[j]));
                }
            } else {
                for (int64_t j = 0; j < columns; ++j) {
                    c[j] = static_cast<T>(from[j * sum_column]);
                }
            }
        }
    });
}

template <typename T>
void StoreEmptyProduct(const GemmArgs<T> &g) {
    for (int64_t i = 0; i < g.m && !g.accumulate; ++i) {
        for (int64_t j = 0; j < g.n; ++j) {
            g.c[i * g.ldc + j] = g.bias == nullptr ? T{} : g.bias[j];
        }
    }
}

/// Computes in blocks of C that fit the cache as sums.
template <typename Acc, typename T>
void RunRounded(const GemmArgs<T> &g) {
    constexpr int64_t kColumns = 2048;
    constexpr int64_t kSums = int64_t{1} << 20;
    const int64_t columns = std::min(g.n, kColumns);
    const int64_t rows = std::min(g.m, kSums / columns);
    Acc *sums = GemmWorkspace<Acc>(GemmBuffer::kScratch, rows * columns);
    for (int64_t i = 0; i < g.m; i += rows) {
        const int64_t height = std::min(rows, g.m - i);
        for (int64_t j = 0; j < g.n; j += columns) {
            const int64_t width = std::min(columns, g.n - j);
            BlockedGemm<T, Acc>({.trans_a = g.trans_a,
                                 .trans_b = g.trans_b,
                                 .m = height,
                                 .n = width,
                                 .k = g.k,
                                 .a = g.a + i * (g.trans_a ? 1 : g.lda),
                                 .lda = g.lda,
                                 .b = g.b + j * (g.trans_b ? g.ldb : 1),
                                 .ldb = g.ldb,
                                 .c = sums,
                                 .ldc = columns,
                                 .accumulate = false,
                                 .bias = nullptr})
                .Run();
            StoreSums(g, i, j, height, width, sums, columns, 1);
        }
    }
}

/// One product whose sums have the type Acc. The way depends on the shape only, and so do the rounding errors.
template <typename Acc, typename T>
void RunGemm(const GemmArgs<T> &g) {
    if (g.m <= 0 || g.n <= 0) {
        return;
    }
    if (g.k <= 0) {
        StoreEmptyProduct(g);
    } else if (g.m <= kMaxSkinny) {
        Acc *sums = GemmWorkspace<Acc>(GemmBuffer::kScratch, g.m * g.n);
        RunSkinny<T, Acc>({g.trans_a, g.trans_b, g.m, g.n, g.k, g.a, g.lda, g.b, g.ldb, nullptr, 0, false, nullptr},
                          sums);
        StoreSums(g, 0, 0, g.m, g.n, sums, g.n, 1);
    } else if (g.n <= kMaxSkinny) {
        // C transposed is op(B) transposed times op(A) transposed.
        Acc *sums = GemmWorkspace<Acc>(GemmBuffer::kScratch, g.m * g.n);
        RunSkinny<T, Acc>({!g.trans_b, !g.trans_a, g.n, g.m, g.k, g.b, g.ldb, g.a, g.lda, nullptr, 0, false, nullptr},
                          sums);
        StoreSums(g, 0, 0, g.m, g.n, sums, 1, g.m);
    } else if constexpr (std::is_same_v<T, Acc>) {
        BlockedGemm<T, T>(
            {g.trans_a, g.trans_b, g.m, g.n, g.k, g.a, g.lda, g.b, g.ldb, g.c, g.ldc, g.accumulate, g.bias})
            .Run();
    } else {
        RunRounded<Acc>(g);
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#endif  // INFINI_TRAIN_SRC_KERNELS_CPU_GEMM_RUN_H_
