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

/// Ends a product: adds what is asked for to the sums, sums[i * row + j * column] for C's element (i, j), and rounds
/// them once.
template <typename T, typename Acc>
void StoreSums(const GemmArgs<T> &g, const Acc *sums, int64_t row, int64_t column) {
    const int64_t grain = std::max<int64_t>(1, (int64_t{1} << 15) / g.n);
    ParallelFor(0, g.m, grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            T *HWY_RESTRICT c = g.c + i * g.ldc;
            const Acc *HWY_RESTRICT from = sums + i * row;
            if (g.accumulate) {
                for (int64_t j = 0; j < g.n; ++j) {
                    c[j] = static_cast<T>(from[j * column] + static_cast<Acc>(c[j]));
                }
            } else if (g.bias != nullptr) {
                for (int64_t j = 0; j < g.n; ++j) {
                    c[j] = static_cast<T>(from[j * column] + static_cast<Acc>(g.bias[j]));
                }
            } else {
                for (int64_t j = 0; j < g.n; ++j) {
                    c[j] = static_cast<T>(from[j * column]);
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

/// The part of a product that gives rows and columns of C from (row, column) on.
template <typename T>
GemmArgs<T> PartOf(const GemmArgs<T> &g, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    GemmArgs<T> part = g;
    part.m = rows;
    part.n = columns;
    part.a += row * (g.trans_a ? 1 : g.lda);
    part.b += column * (g.trans_b ? g.ldb : 1);
    part.c += row * g.ldc + column;
    part.bias = g.bias == nullptr ? nullptr : g.bias + column;
    return part;
}

/// Computes in blocks of C whose sums fit the cache.
template <typename Acc, typename T>
void RunRounded(const GemmArgs<T> &g) {
    constexpr int64_t kColumns = 2048;
    constexpr int64_t kSums = int64_t{1} << 20;
    const int64_t columns = std::min(g.n, kColumns);
    const int64_t rows = std::min(g.m, kSums / columns);
    Acc *sums = GemmWorkspace<Acc>(GemmBuffer::kScratch, rows * columns);
    for (int64_t i = 0; i < g.m; i += rows) {
        for (int64_t j = 0; j < g.n; j += columns) {
            const GemmArgs<T> x = PartOf(g, i, std::min(rows, g.m - i), j, std::min(columns, g.n - j));
            BlockedGemm<T, Acc>(
                {x.trans_a, x.trans_b, x.m, x.n, x.k, x.a, x.lda, x.b, x.ldb, sums, columns, false, nullptr})
                .Run();
            StoreSums(x, sums, columns, 1);
        }
    }
}

/// Gives each thread a part of C's longer side where that is long enough for it, else runs the threads inside a block.
template <typename Acc, typename T>
void RunRoundedParts(const GemmArgs<T> &g) {
    constexpr int64_t kGrain = 96;
    const bool split_rows = g.m > g.n;
    const int64_t side = split_rows ? g.m : g.n;
    if (g.m * g.n * g.k < kMinParallel || side < kMinSideForCopies * GetNumThreads()) {
        RunRounded<Acc>(g);
        return;
    }
    ParallelFor(0, side, kGrain, [&](int64_t begin, int64_t end) {
        RunRounded<Acc>(split_rows ? PartOf(g, begin, end - begin, 0, g.n) : PartOf(g, 0, g.m, begin, end - begin));
    });
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
        StoreSums(g, sums, g.n, 1);
    } else if (g.n <= kMaxSkinny) {
        // C transposed is op(B) transposed times op(A) transposed.
        Acc *sums = GemmWorkspace<Acc>(GemmBuffer::kScratch, g.m * g.n);
        RunSkinny<T, Acc>({!g.trans_b, !g.trans_a, g.n, g.m, g.k, g.b, g.ldb, g.a, g.lda, nullptr, 0, false, nullptr},
                          sums);
        StoreSums(g, sums, 1, g.m);
    } else if constexpr (std::is_same_v<T, Acc>) {
        BlockedGemm<T, T>(
            {g.trans_a, g.trans_b, g.m, g.n, g.k, g.a, g.lda, g.b, g.ldb, g.c, g.ldc, g.accumulate, g.bias})
            .Run();
    } else {
        RunRoundedParts<Acc>(g);
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#endif  // INFINI_TRAIN_SRC_KERNELS_CPU_GEMM_RUN_H_
