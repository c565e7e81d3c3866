// Sums, maxima and exponentials over rows of float or double, for softmax, normalisation and losses. Compiled once for
// each Highway target, hence the toggled include guard.

#if defined(INFINI_TRAIN_SRC_KERNELS_CPU_ROW_MATH_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef INFINI_TRAIN_SRC_KERNELS_CPU_ROW_MATH_H_
#undef INFINI_TRAIN_SRC_KERNELS_CPU_ROW_MATH_H_
#else
#define INFINI_TRAIN_SRC_KERNELS_CPU_ROW_MATH_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <hwy/highway.h>

#include "infini_train/src/kernels/cpu/row_access.h"

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

/// e^x. For float right for x <= 88 to 1.5 units in the last place, and 0 below -87.3, where e^x is subnormal; double
/// is the standard library's. NaN stays NaN.
template <class D>
HWY_INLINE hn::Vec<D> Exp(D d, hn::Vec<D> x) {
    if constexpr (sizeof(hn::TFromD<D>) == 8) {
        HWY_ALIGN double lanes[hn::MaxLanes(d)];
        hn::Store(x, d, lanes);
        for (size_t i = 0; i < hn::Lanes(d); ++i) {
            lanes[i] = std::exp(lanes[i]);
        }
        return hn::Load(d, lanes);
    } else {
        const hn::RebindToSigned<D> di;
        const auto exponent = hn::NearestInt(hn::Mul(x, hn::Set(d, 1.44269504F)));
        const auto n = hn::ConvertTo(d, exponent);
        // ln 2 in two parts, the first exact times any n.
        auto f = hn::NegMulAdd(n, hn::Set(d, 0.693359375F), x);
        f = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4F), f);
        // The polynomial of the Cephes library.
        auto p = hn::Set(d, 1.9875691500e-4F);
        p = hn::MulAdd(p, f, hn::Set(d, 1.3981999507e-3F));
        p = hn::MulAdd(p, f, hn::Set(d, 8.3334519073e-3F));
        p = hn::MulAdd(p, f, hn::Set(d, 4.1665795894e-2F));
        p = hn::MulAdd(p, f, hn::Set(d, 1.6666665459e-1F));
        p = hn::MulAdd(p, f, hn::Set(d, 5.0000001201e-1F));
        p = hn::Add(hn::MulAdd(p, hn::Mul(f, f), f), hn::Set(d, 1.0F));
        const auto scale = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(exponent, hn::Set(di, 127))));
        return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.3F)), hn::Mul(p, scale));
    }
}

/// y[i] = f(x[i]) for vectors; x and y may be the same.
template <typename C, class F>
HWY_INLINE void MapRow(int64_t n, const C *x, C *y, const F &f) {
    const hn::ScalableTag<C> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
        hn::StoreU(f(hn::LoadU(d, x + i)), d, y + i);
    }
    if (i < n) {
        StoreFirst(d, f(LoadFirst(d, x + i, n - i, C{0})), y + i, n - i);
    }
}

/// z[i] = f(x[i], y[i]).
template <typename C, class F>
HWY_INLINE void MapRows(int64_t n, const C *x, const C *y, C *z, const F &f) {
    const hn::ScalableTag<C> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
        hn::StoreU(f(hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, z + i);
    }
    if (i < n) {
        const int64_t rest = n - i;
        StoreFirst(d, f(LoadFirst(d, x + i, rest, C{0}), LoadFirst(d, y + i, rest, C{0})), z + i, rest);
    }
}

/// The sum of f(i, d) over vectors that begin at i = 0, lanes, ... below n; f(i, count) gives a vector of which the
/// lanes from `count` on are 0 where fewer than all lie below n. Blocks add up in C, the blocks in double.
template <typename C, class Full, class Part>
HWY_INLINE double SumVectors(int64_t n, const Full &full, const Part &part) {
    const hn::ScalableTag<C> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    double total = 0;
    int64_t i = 0;
    while (i < n) {
        const int64_t end = std::min(n, i + kChunk);
        auto s0 = hn::Zero(d);
        auto s1 = hn::Zero(d);
        auto s2 = hn::Zero(d);
        auto s3 = hn::Zero(d);
        for (; i + 4 * lanes <= end; i += 4 * lanes) {
            s0 = hn::Add(s0, full(i));
            s1 = hn::Add(s1, full(i + lanes));
            s2 = hn::Add(s2, full(i + 2 * lanes));
            s3 = hn::Add(s3, full(i + 3 * lanes));
        }
        for (; i + lanes <= end; i += lanes) {
            s0 = hn::Add(s0, full(i));
        }
        if (i < end) {
            s1 = hn::Add(s1, part(i, end - i));
            i = end;
        }
        total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)))));
    }
    return total;
}

/// The sum of f(x[i]); lanes beyond the end are masked out after f.
template <typename C, class F>
HWY_INLINE double SumRow(int64_t n, const C *x, const F &f) {
    const hn::ScalableTag<C> d;
    return SumVectors<C>(
        n, [&](int64_t i) HWY_ATTR { return f(hn::LoadU(d, x + i)); },
        [&](int64_t i, int64_t count) HWY_ATTR {
            return hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(count)), f(LoadFirst(d, x + i, count, C{0})));
        });
}

/// The sum of f(x[i], y[i]).
template <typename C, class F>
HWY_INLINE double SumRows(int64_t n, const C *x, const C *y, const F &f) {
    const hn::ScalableTag<C> d;
    return SumVectors<C>(
        n, [&](int64_t i) HWY_ATTR { return f(hn::LoadU(d, x + i), hn::LoadU(d, y + i)); },
        [&](int64_t i, int64_t count) HWY_ATTR {
            return hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(count)),
                                      f(LoadFirst(d, x + i, count, C{0}), LoadFirst(d, y + i, count, C{0})));
        });
}

/// The largest element, n >= 1; with a NaN among them either a NaN or the largest of others.
template <typename C>
HWY_INLINE C MaxOfRow(int64_t n, const C *x) {
    const hn::ScalableTag<C> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    constexpr C kLowest = -std::numeric_limits<C>::infinity();
    auto m0 = hn::Set(d, kLowest);
    auto m1 = m0;
    auto m2 = m0;
    auto m3 = m0;
    int64_t i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
        m0 = hn::Max(m0, hn::LoadU(d, x + i));
        m1 = hn::Max(m1, hn::LoadU(d, x + i + lanes));
        m2 = hn::Max(m2, hn::LoadU(d, x + i + 2 * lanes));
        m3 = hn::Max(m3, hn::LoadU(d, x + i + 3 * lanes));
    }
    for (; i + lanes <= n; i += lanes) {
        m0 = hn::Max(m0, hn::LoadU(d, x + i));
    }
    if (i < n) {
        m1 = hn::Max(m1, LoadFirst(d, x + i, n - i, kLowest));
    }
    return hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(m0, m1), hn::Max(m2, m3))));
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#endif  // the toggled guard
