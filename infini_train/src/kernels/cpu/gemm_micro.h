// The register tiles of the matrix product. Compiled once for each Highway target, hence the toggled include guard.

#if defined(INFINI_TRAIN_SRC_KERNELS_CPU_GEMM_MICRO_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef INFINI_TRAIN_SRC_KERNELS_CPU_GEMM_MICRO_H_
#undef INFINI_TRAIN_SRC_KERNELS_CPU_GEMM_MICRO_H_
#else
#define INFINI_TRAIN_SRC_KERNELS_CPU_GEMM_MICRO_H_
#endif

#include <array>
#include <cstdint>
#include <utility>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// A tile is kRows x kColumns elements of C, held in kRows x kVectors registers. 16 registers leave room for 6 x 2
/// sums, 32 for 14 x 2.
template <typename Acc>
struct TileShape {
    using Tag = hn::ScalableTag<Acc>;
    using Vector = hn::Vec<Tag>;
    static constexpr int kLanes = static_cast<int>(hn::MaxLanes(Tag()));
    static constexpr int kVectors = 2;
    static constexpr int kRows = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON ? 14 : 6;
    static constexpr int kColumns = kVectors * kLanes;
};

/// The first `count` of a vector's lanes, the others zero. Touches no memory beyond them.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> LoadFirst(D d, const T *from, int count) {
#if HWY_MEM_OPS_MIGHT_FAULT
    T lanes[HWY_MAX_BYTES / sizeof(T)] = {};
    for (int i = 0; i < count; ++i) {
        lanes[i] = from[i];
    }
    return hn::LoadU(d, lanes);
#else
    return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(count)), d, from);
#endif
}

/// Stores the first `count` lanes and touches no memory beyond them.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void StoreFirst(hn::Vec<D> v, D d, T *to, int count) {
#if HWY_MEM_OPS_MIGHT_FAULT
    T lanes[HWY_MAX_BYTES / sizeof(T)];
    hn::StoreU(v, d, lanes);
    for (int i = 0; i < count; ++i) {
        to[i] = lanes[i];
    }
#else
    hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(count)), d, to);
#endif
}

/// One tile: C (+)= A B for `k` steps. A's element (i, p) is a[i * a_row + p * a_step], B's (p, j) is b[p * b_step +
/// j].
template <typename Acc>
struct TileArgs {
    int64_t k;
    const Acc *a;
    int64_t a_row, a_step;
    const Acc *b;
    int64_t b_step;
    Acc *c;
    int64_t ldc;
    const Acc *bias;  // null, or of the tile's columns
    bool accumulate;
    int last_columns;  // columns in the last vector
};

/// `kPackedRows` says that a_row is 1. Every variant adds up an element in the same order: p from 0 to k.
template <typename Acc, int kRows, int kVectors, bool kPackedRows>
HWY_NOINLINE void RunTile(const TileArgs<Acc> &t) {
    using Shape = TileShape<Acc>;
    constexpr int kLanes = Shape::kLanes;
    const typename Shape::Tag d;
    typename Shape::Vector sum[kRows][kVectors];
    HWY_UNROLL(16) for (int i = 0; i < kRows; ++i) {
        HWY_UNROLL(4) for (int v = 0; v < kVectors; ++v) {
            sum[i][v] = hn::Zero(d);
        }
        hwy::Prefetch(t.c + i * t.ldc);
    }
    const Acc *HWY_RESTRICT a = t.a;
    const Acc *HWY_RESTRICT b = t.b;
    const int64_t a_step = t.a_step;
    const int64_t b_step = t.b_step;
    const int64_t a_row = kPackedRows ? 1 : t.a_row;
    HWY_UNROLL(4) for (int64_t p = t.k; p > 0; --p) {
        typename Shape::Vector row[kVectors];
        HWY_UNROLL(4) for (int v = 0; v < kVectors; ++v) {
            row[v] = hn::LoadU(d, b + v * kLanes);
        }
        hwy::Prefetch(b + 8 * b_step);
        HWY_UNROLL(16) for (int i = 0; i < kRows; ++i) {
            const auto x = hn::Set(d, a[i * a_row]);
            HWY_UNROLL(4) for (int v = 0; v < kVectors; ++v) {
                sum[i][v] = hn::MulAdd(x, row[v], sum[i][v]);
            }
        }
        a += a_step;
        b += b_step;
    }
    // Written out here, and not as a function of the sums, so that GCC keeps them in registers.
    const Acc *add = t.accumulate ? t.c : t.bias;
    const int64_t add_row = t.accumulate ? t.ldc : 0;
    const int last = t.last_columns;
    HWY_UNROLL(16) for (int i = 0; i < kRows; ++i) {
        Acc *c = t.c + i * t.ldc;
        if (add != nullptr) {
            HWY_UNROLL(4) for (int v = 0; v < kVectors; ++v) {
                const Acc *from = add + i * add_row + v * kLanes;
                const bool whole = v + 1 < kVectors || last == kLanes;
                sum[i][v] = hn::Add(sum[i][v], whole ? hn::LoadU(d, from) : LoadFirst(d, from, last));
            }
        }
        HWY_UNROLL(4) for (int v = 0; v + 1 < kVectors; ++v) {
            hn::StoreU(sum[i][v], d, c + v * kLanes);
        }
        if (last == kLanes) {
            hn::StoreU(sum[i][kVectors - 1], d, c + (kVectors - 1) * kLanes);
        } else {
            StoreFirst(sum[i][kVectors - 1], d, c + (kVectors - 1) * kLanes, last);
        }
    }
}

template <typename Acc>
using TileFunction = void (*)(const TileArgs<Acc> &);

template <typename Acc, int kVectors, bool kPackedRows, int... kIndex>
constexpr std::array<TileFunction<Acc>, sizeof...(kIndex)> TileFunctionsOf(std::integer_sequence<int, kIndex...>) {
    return {&RunTile<Acc, kIndex + 1, kVectors, kPackedRows>...};
}

/// The function for a tile of `rows` (1 to kRows) rows and `vectors` (1 to kVectors) vectors.
template <typename Acc, bool kPackedRows>
TileFunction<Acc> FindTile(int rows, int vectors) {
    using Indices = std::make_integer_sequence<int, TileShape<Acc>::kRows>;
    static constexpr std::array<TileFunction<Acc>, TileShape<Acc>::kRows> kTiles[] = {
        TileFunctionsOf<Acc, 1, kPackedRows>(Indices()), TileFunctionsOf<Acc, 2, kPackedRows>(Indices())};
    static_assert(TileShape<Acc>::kVectors == 2);
    return kTiles[vectors - 1][rows - 1];
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#endif  // INFINI_TRAIN_SRC_KERNELS_CPU_GEMM_MICRO_H_
