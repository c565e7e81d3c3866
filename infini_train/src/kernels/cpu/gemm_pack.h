// Copies panels of an operand into the order in which the tiles read them. Compiled once for each Highway target, hence
// the toggled include guard.

#if defined(INFINI_TRAIN_SRC_KERNELS_CPU_GEMM_PACK_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef INFINI_TRAIN_SRC_KERNELS_CPU_GEMM_PACK_H_
#undef INFINI_TRAIN_SRC_KERNELS_CPU_GEMM_PACK_H_
#else
#define INFINI_TRAIN_SRC_KERNELS_CPU_GEMM_PACK_H_
#endif

#include <algorithm>
#include <cstdint>

#include <hwy/highway.h>

#include "infini_train/include/datatype.h"

#include "infini_train/src/kernels/cpu/gemm_micro.h"

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Loads a vector of D's type, converted from what is in memory.
template <class D>
HWY_INLINE hn::Vec<D> LoadAs(D d, const hn::TFromD<D> *from) {
    return hn::LoadU(d, from);
}
template <class D>
HWY_INLINE hn::Vec<D> LoadAs(D d, const BFloat16 *from) {
    const hn::Rebind<uint16_t, D> bits16;
    const hn::Rebind<uint32_t, D> bits32;
    const auto bits = hn::LoadU(bits16, reinterpret_cast<const uint16_t *>(from));
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(bits32, bits)));
}
template <class D>
HWY_INLINE hn::Vec<D> LoadAs(D d, const Float16 *from) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
    // Highway's own conversion makes numbers of infinity and NaN where the processor has no instruction for it.
    float lanes[hn::MaxLanes(D())];
    for (size_t i = 0; i < hn::MaxLanes(D()); ++i) {
        lanes[i] = static_cast<float>(from[i]);
    }
    return hn::LoadU(d, lanes);
#else
    const hn::Rebind<hwy::float16_t, D> half;
    return hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t *>(from)));
#endif
}

#if HWY_TARGET != HWY_SCALAR
/// A vector of 16-byte blocks (after conversion), each from another row and beginning at element `k`. With s lanes in a
/// block, block i comes from rows[i * s].
template <class D, typename In>
HWY_INLINE hn::Vec<D> LoadBlocks(D d, const In *const *rows, int64_t k) {
    constexpr size_t kLanes = hn::MaxLanes(D());
    if constexpr (kLanes * sizeof(hn::TFromD<D>) <= 16) {
        return LoadAs(d, rows[0] + k);
    } else {
        const hn::Half<D> half;
        return hn::Combine(d, LoadBlocks(half, rows + kLanes / 2, k), LoadBlocks(half, rows, k));
    }
}

/// out[p] = elements k + p of as many rows as a vector has lanes, for as many p as a 16-byte block has.
template <class D, typename In>
HWY_INLINE void LoadTransposed(D d, const In *const *rows, int64_t k, hn::Vec<D> *out) {
    if constexpr (sizeof(hn::TFromD<D>) == 4) {
        const auto r0 = LoadBlocks(d, rows, k), r1 = LoadBlocks(d, rows + 1, k);
        const auto r2 = LoadBlocks(d, rows + 2, k), r3 = LoadBlocks(d, rows + 3, k);
        const auto even_low = hn::InterleaveLower(d, r0, r2), even_high = hn::InterleaveUpper(d, r0, r2);
        const auto odd_low = hn::InterleaveLower(d, r1, r3), odd_high = hn::InterleaveUpper(d, r1, r3);
        out[0] = hn::InterleaveLower(d, even_low, odd_low);
        out[1] = hn::InterleaveUpper(d, even_low, odd_low);
        out[2] = hn::InterleaveLower(d, even_high, odd_high);
        out[3] = hn::InterleaveUpper(d, even_high, odd_high);
    } else {
        const auto r0 = LoadBlocks(d, rows, k), r1 = LoadBlocks(d, rows + 1, k);
        out[0] = hn::InterleaveLower(d, r0, r1);
        out[1] = hn::InterleaveUpper(d, r0, r1);
    }
}

#endif  // HWY_TARGET != HWY_SCALAR

/// Packs `count` (at most kPanel) rows of `steps` contiguous elements: to[p * kPanel + i] = from[i * ld + p]. What
/// stands beyond row `count` in `to` has no meaning.
template <int kPanel, typename In, typename Acc>
HWY_NOINLINE void PackTransposed(const In *from, int64_t ld, int count, int64_t steps, Acc *HWY_RESTRICT to) {
    using Shape = TileShape<Acc>;
    constexpr int kLanes = Shape::kLanes;
    constexpr int kBlock = static_cast<int>(16 / sizeof(Acc));
    constexpr int kVectors = (kPanel + kLanes - 1) / kLanes;
    const typename Shape::Tag d;
    const In *rows[kVectors * kLanes];
    for (int i = 0; i < kVectors * kLanes; ++i) {
        rows[i] = from + std::min(i, count - 1) * ld;
    }
    int64_t done = 0;
    if constexpr (kLanes >= kBlock) {
        // Where the panel is no multiple of a vector, stores run over into the next step, which is written later. So
        // the last step mustn't be one of these.
        const int64_t end = kPanel % kLanes == 0 ? steps : steps - 1;
        for (; done + kBlock <= end; done += kBlock) {
            hn::Vec<typename Shape::Tag> out[kVectors][kBlock];
            for (int v = 0; v < kVectors; ++v) {
                LoadTransposed(d, rows + v * kLanes, done, out[v]);
            }
            for (int p = 0; p < kBlock; ++p) {
                for (int v = 0; v < kVectors; ++v) {
                    hn::StoreU(out[v][p], d, to + (done + p) * kPanel + v * kLanes);
                }
            }
        }
    }
    for (; done < steps; ++done) {
        for (int i = 0; i < kPanel; ++i) {
            to[done * kPanel + i] = static_cast<Acc>(rows[i][done]);
        }
    }
}

/// Packs `count` (at most kPanel) columns of `steps` rows: to[p * kPanel + i] = from[p * ld + i]. `readable` columns
/// may be read. What stands beyond column `count` in `to` has no meaning.
template <int kPanel, typename In, typename Acc>
HWY_NOINLINE void PackCopied(const In *from, int64_t ld, int count, int64_t readable, int64_t steps,
                             Acc *HWY_RESTRICT to) {
    using Shape = TileShape<Acc>;
    constexpr int kLanes = Shape::kLanes;
    constexpr int kVectors = (kPanel + kLanes - 1) / kLanes;
    const typename Shape::Tag d;
    int64_t done = 0;
    if (readable >= kVectors * kLanes) {
        // As in PackTransposed, stores may run over into the next step.
        const int64_t end = kPanel % kLanes == 0 ? steps : steps - 1;
        for (; done < end; ++done) {
            hwy::Prefetch(from + (done + 8) * ld);
            for (int v = 0; v < kVectors; ++v) {
                hn::StoreU(LoadAs(d, from + done * ld + v * kLanes), d, to + done * kPanel + v * kLanes);
            }
        }
    }
    for (; done < steps; ++done) {
        for (int i = 0; i < kPanel; ++i) {
            to[done * kPanel + i] = i < count ? static_cast<Acc>(from[done * ld + i]) : Acc{0};
        }
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#endif  // INFINI_TRAIN_SRC_KERNELS_CPU_GEMM_PACK_H_
