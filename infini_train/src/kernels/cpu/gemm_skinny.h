// Products of a few rows: they stream through B once, as it lies. Compiled once for each Highway target, hence the
// toggled include guard.

#if defined(INFINI_TRAIN_SRC_KERNELS_CPU_GEMM_SKINNY_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef INFINI_TRAIN_SRC_KERNELS_CPU_GEMM_SKINNY_H_
#undef INFINI_TRAIN_SRC_KERNELS_CPU_GEMM_SKINNY_H_
#else
#define INFINI_TRAIN_SRC_KERNELS_CPU_GEMM_SKINNY_H_
#endif

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <hwy/highway.h>

#include "infini_train/include/core/parallel.h"

#include "infini_train/src/kernels/cpu/gemm_blocked.h"
#include "infini_train/src/kernels/cpu/gemm_micro.h"
#include "infini_train/src/kernels/cpu/gemm_pack.h"
#include "infini_train/src/kernels/cpu/gemm_workspace.h"

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int64_t kMaxSkinny = 4;

/// As LoadAs, but only the first `count` elements; the other lanes are zero.
template <class D, typename In>
HWY_INLINE hn::Vec<D> LoadFirstAs(D d, const In *from, int count) {
    if constexpr (std::is_same_v<In, hn::TFromD<D>>) {
        return LoadFirst(d, from, count);
    } else {
        hn::TFromD<D> lanes[hn::MaxLanes(D())] = {};
        for (int i = 0; i < count; ++i) {
            lanes[i] = static_cast<hn::TFromD<D>>(from[i]);
        }
        return hn::LoadU(d, lanes);
    }
}

/// kCount dot products of each of kRows rows of A with rows of B: to[i * to_row + j]. kSums partial sums hide the
/// latency of an addition; their number decides the rounding, so it depends on kRows only.
template <int kRows, int kCount, typename In, typename Acc>
HWY_INLINE void Dot(const Acc *HWY_RESTRICT a, int64_t lda, const In *HWY_RESTRICT b, int64_t ldb, int64_t k, Acc *to,
                    int64_t to_row) {
    using Shape = TileShape<Acc>;
    constexpr int kLanes = Shape::kLanes;
    constexpr int kSums = kRows <= 2 ? 2 : 1;
    const typename Shape::Tag d;
    typename Shape::Vector sum[kRows][kCount][kSums];
    HWY_UNROLL(4) for (int i = 0; i < kRows; ++i) {
        HWY_UNROLL(4) for (int j = 0; j < kCount; ++j) {
            HWY_UNROLL(2) for (int s = 0; s < kSums; ++s) {
                sum[i][j][s] = hn::Zero(d);
            }
        }
    }
    int64_t p = 0;
    for (; p + kSums * kLanes <= k; p += kSums * kLanes) {
        HWY_UNROLL(4) for (int j = 0; j < kCount; ++j) {
            HWY_UNROLL(2) for (int s = 0; s < kSums; ++s) {
                const auto y = LoadAs(d, b + j * ldb + p + s * kLanes);
                HWY_UNROLL(4) for (int i = 0; i < kRows; ++i) {
                    const auto x = hn::LoadU(d, a + i * lda + p + s * kLanes);
                    sum[i][j][s] = hn::MulAdd(x, y, sum[i][j][s]);
                }
            }
        }
    }
    for (; p < k; p += kLanes) {
        const int count = static_cast<int>(std::min<int64_t>(kLanes, k - p));
        HWY_UNROLL(4) for (int j = 0; j < kCount; ++j) {
            const auto y = LoadFirstAs(d, b + j * ldb + p, count);
            HWY_UNROLL(4) for (int i = 0; i < kRows; ++i) {
                sum[i][j][0] = hn::MulAdd(LoadFirst(d, a + i * lda + p, count), y, sum[i][j][0]);
            }
        }
    }
    HWY_UNROLL(4) for (int i = 0; i < kRows; ++i) {
        HWY_UNROLL(4) for (int j = 0; j < kCount; ++j) {
            HWY_UNROLL(2) for (int s = 1; s < kSums; ++s) {
                sum[i][j][0] = hn::Add(sum[i][j][0], sum[i][j][s]);
            }
            to[i * to_row + j] = hn::GetLane(hn::SumOfLanes(d, sum[i][j][0]));
        }
    }
}

/// Columns [begin, end) of the product of kRows rows with a transposed B.
template <int kRows, typename In, typename Acc>
HWY_NOINLINE void SkinnyTransposed(const Acc *a, int64_t lda, const In *b, int64_t ldb, int64_t k, int64_t begin,
                                   int64_t end, Acc *to, int64_t to_row) {
    constexpr int kCount = kRows == 1 ? 4 : 2;
    int64_t j = begin;
    for (; j + kCount <= end; j += kCount) {
        Dot<kRows, kCount>(a, lda, b + j * ldb, ldb, k, to + j, to_row);
    }
    for (; j < end; ++j) {
        Dot<kRows, 1>(a, lda, b + j * ldb, ldb, k, to + j, to_row);
    }
}

/// sums[i * stride + j] (+)= rows [0, kSteps) of B, times A's element of that row and step, for `columns` columns.
template <int kRows, int kSteps, typename In, typename Acc>
HWY_INLINE void AddScaledRows(const Acc *a, int64_t lda, const In *b, int64_t ldb, int columns, bool first, Acc *sums,
                              int stride) {
    using Shape = TileShape<Acc>;
    constexpr int kLanes = Shape::kLanes;
    const typename Shape::Tag d;
    for (int j = 0; j < columns; j += kLanes) {
        const int count = std::min(kLanes, columns - j);
        typename Shape::Vector y[kSteps];
        HWY_UNROLL(4) for (int s = 0; s < kSteps; ++s) {
            const In *from = b + s * ldb + j;
            y[s] = count == kLanes ? LoadAs(d, from) : LoadFirstAs(d, from, count);
        }
        HWY_UNROLL(4) for (int i = 0; i < kRows; ++i) {
            auto sum = first ? hn::Zero(d) : hn::LoadU(d, sums + i * stride + j);
            HWY_UNROLL(4) for (int s = 0; s < kSteps; ++s) {
                sum = hn::MulAdd(hn::Set(d, a[i * lda + s]), y[s], sum);
            }
            hn::StoreU(sum, d, sums + i * stride + j);
        }
    }
}

/// Columns [begin, end) of the product of kRows rows with a B that isn't transposed.
template <int kRows, typename In, typename Acc>
HWY_NOINLINE void SkinnyPlain(const Acc *a, int64_t lda, const In *b, int64_t ldb, int64_t k, int64_t begin,
                              int64_t end, Acc *to, int64_t to_row) {
    // A multiple of every vector length; the sums stay in the first-level cache.
    constexpr int kWidth = 2048 / (kRows == 3 ? 4 : kRows);
    constexpr int kSteps = 4;
    Acc sums[kRows * kWidth];
    for (int64_t jc = begin; jc < end; jc += kWidth) {
        const int columns = static_cast<int>(std::min<int64_t>(kWidth, end - jc));
        for (int64_t pc = 0; pc < k; pc += kMaxSteps) {
            const int64_t p_end = std::min(k, pc + kMaxSteps);
            int64_t p = pc;
            for (; p + kSteps <= p_end; p += kSteps) {
                AddScaledRows<kRows, kSteps>(a + p, lda, b + p * ldb + jc, ldb, columns, p == pc, sums, kWidth);
            }
            for (; p < p_end; ++p) {
                AddScaledRows<kRows, 1>(a + p, lda, b + p * ldb + jc, ldb, columns, p == pc, sums, kWidth);
            }
            for (int i = 0; i < kRows; ++i) {
                Acc *row = to + i * to_row + jc;
                for (int j = 0; j < columns; ++j) {
                    row[j] = pc == 0 ? sums[i * kWidth + j] : row[j] + sums[i * kWidth + j];
                }
            }
        }
    }
}

/// The product (m, n) of A, given as m (at most kMaxSkinny) rows of k sums, with op(B).
template <int kRows, typename In, typename Acc>
void RunSkinnyRows(const Acc *a, int64_t lda, const In *b, int64_t ldb, bool trans_b, int64_t n, int64_t k, Acc *to) {
    const int64_t grain = kRows * n * k >= kMinParallel ? 64 : n;
    ParallelFor(0, n, grain, [&](int64_t begin, int64_t end) {
        if (trans_b) {
            SkinnyTransposed<kRows>(a, lda, b, ldb, k, begin, end, to, n);
        } else {
            SkinnyPlain<kRows>(a, lda, b, ldb, k, begin, end, to, n);
        }
    });
}

/// Sets `to` (m, n) to op(A) op(B) for m of 1 to kMaxSkinny.
template <typename In, typename Acc>
void RunSkinny(const Product<In, Acc> &p, Acc *to) {
    const Acc *a = nullptr;
    int64_t lda = p.lda;
    if constexpr (std::is_same_v<In, Acc>) {
        a = p.trans_a ? nullptr : p.a;
    }
    if (a == nullptr) {
        Acc *rows = GemmWorkspace<Acc>(GemmBuffer::kShared, p.m * p.k);
        for (int64_t i = 0; i < p.m; ++i) {
            for (int64_t k = 0; k < p.k; ++k) {
                rows[i * p.k + k] = static_cast<Acc>(p.a[p.trans_a ? k * p.lda + i : i * p.lda + k]);
            }
        }
        a = rows;
        lda = p.k;
    }
    switch (p.m) {
        case 1:
            return RunSkinnyRows<1>(a, lda, p.b, p.ldb, p.trans_b, p.n, p.k, to);
        case 2:
            return RunSkinnyRows<2>(a, lda, p.b, p.ldb, p.trans_b, p.n, p.k, to);
        case 3:
            return RunSkinnyRows<3>(a, lda, p.b, p.ldb, p.trans_b, p.n, p.k, to);
        default:
            return RunSkinnyRows<4>(a, lda, p.b, p.ldb, p.trans_b, p.n, p.k, to);
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#endif  // INFINI_TRAIN_SRC_KERNELS_CPU_GEMM_SKINNY_H_
