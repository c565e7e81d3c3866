// What is done to the elements that are reduced: sums, maxima, minima of rows and columns. Compiled once for each
// Highway target, hence the toggled include guard.

#if defined(INFINI_TRAIN_SRC_KERNELS_CPU_REDUCTION_OPS_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef INFINI_TRAIN_SRC_KERNELS_CPU_REDUCTION_OPS_H_
#undef INFINI_TRAIN_SRC_KERNELS_CPU_REDUCTION_OPS_H_
#else
#define INFINI_TRAIN_SRC_KERNELS_CPU_REDUCTION_OPS_H_
#endif

#include <cstdint>
#include <limits>
#include <type_traits>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Adds pairs of equally many terms, so that the rounding error grows with the logarithm of their number.
class PairwiseSum {
public:
    HWY_INLINE void Add(double value) {
        int i = 0;
        for (uint64_t carry = count_++; (carry & 1) != 0; carry >>= 1) {
            value += levels_[i++];
        }
        levels_[i] = value;
    }
    HWY_INLINE double Total() const {
        double total = 0;
        int i = 0;
        for (uint64_t bits = count_; bits != 0; bits >>= 1, ++i) {
            total += (bits & 1) != 0 ? levels_[i] : 0;
        }
        return total;
    }

private:
    double levels_[64];
    uint64_t count_ = 0;
};

/// C is the type of the elements as they're read, Partial that of the sum of many; Total combines partial results.
template <typename C>
struct SumOp {
    static constexpr bool kOrdered = false;
    using Partial = std::conditional_t<std::is_integral_v<C>, int64_t, double>;

    struct WrappingSum {
        int64_t sum = 0;
        HWY_INLINE void Add(int64_t value) { sum = Plus(sum, value); }
        HWY_INLINE int64_t Total() const { return sum; }
    };
    using Combiner = std::conditional_t<std::is_integral_v<C>, WrappingSum, PairwiseSum>;

    template <typename T>
    static HWY_INLINE T Plus(T a, T b) {
        if constexpr (std::is_integral_v<T>) {
            return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
        } else {
            return a + b;
        }
    }
    template <typename T>
    static HWY_INLINE T Scalar(T a, T b) {
        return Plus(a, b);
    }
    template <class V>
    static HWY_INLINE V Vector(V a, V b) {
        return hn::Add(a, b);
    }
    static HWY_INLINE C Finish(Partial partial, double divisor) {
        if constexpr (std::is_integral_v<C>) {
            return partial;
        } else {
            return static_cast<C>(divisor == 1.0 ? partial : partial / divisor);
        }
    }
};

template <typename C, bool kMax>
struct ExtremeOp {
    static constexpr bool kOrdered = true;
    using Partial = C;

    struct Combiner {
        C value{};
        bool any = false;
        HWY_INLINE void Add(C next) {
            value = any ? Scalar(value, next) : next;
            any = true;
        }
        HWY_INLINE C Total() const { return value; }
    };

    // NaN is what isn't equal to itself; no comparison is true of it, so that it stays where it was found.
    static HWY_INLINE C Scalar(C a, C b) {
        const bool better = kMax ? b > a : b < a;
        if constexpr (std::is_floating_point_v<C>) {
            return (better | (b != b)) ? b : a;
        } else {
            return better ? b : a;
        }
    }
    template <class V>
    static HWY_INLINE V Vector(V a, V b) {
        const auto better = kMax ? hn::Gt(b, a) : hn::Lt(b, a);
        if constexpr (std::is_floating_point_v<C>) {
            return hn::IfThenElse(hn::Or(better, hn::IsNaN(b)), b, a);
        } else {
            return hn::IfThenElse(better, b, a);
        }
    }
    static HWY_INLINE C Finish(C partial, double) { return partial; }
};

/// All of n >= 1 elements of a row, at most a few hundred.
template <class Op, typename C>
HWY_INLINE C ReduceBlock(const C *HWY_RESTRICT x, int64_t n) {
    const hn::ScalableTag<C> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    if (n < lanes) {
        C result = x[0];
        for (int64_t i = 1; i < n; ++i) {
            result = Op::Scalar(result, x[i]);
        }
        return result;
    }
    int64_t i = lanes;
    auto a0 = hn::LoadU(d, x);
    if (n >= 4 * lanes) {
        auto a1 = hn::LoadU(d, x + lanes);
        auto a2 = hn::LoadU(d, x + 2 * lanes);
        auto a3 = hn::LoadU(d, x + 3 * lanes);
        for (i = 4 * lanes; i + 4 * lanes <= n; i += 4 * lanes) {
            a0 = Op::Vector(a0, hn::LoadU(d, x + i));
            a1 = Op::Vector(a1, hn::LoadU(d, x + i + lanes));
            a2 = Op::Vector(a2, hn::LoadU(d, x + i + 2 * lanes));
            a3 = Op::Vector(a3, hn::LoadU(d, x + i + 3 * lanes));
        }
        a0 = Op::Vector(Op::Vector(a0, a1), Op::Vector(a2, a3));
    }
    for (; i + lanes <= n; i += lanes) {
        a0 = Op::Vector(a0, hn::LoadU(d, x + i));
    }
    HWY_ALIGN C folded[hn::MaxLanes(d)];
    hn::Store(a0, d, folded);
    for (int64_t width = lanes / 2; width > 0; width /= 2) {
        for (int64_t j = 0; j < width; ++j) {
            folded[j] = Op::Scalar(folded[j], folded[j + width]);
        }
    }
    C result = folded[0];
    for (; i < n; ++i) {
        result = Op::Scalar(result, x[i]);
    }
    return result;
}

/// result[i] takes in the i-th elements of one row, or of four.
template <class Op, typename C>
HWY_INLINE void TakeInRow(const C *HWY_RESTRICT a, int64_t n, C *HWY_RESTRICT result) {
    const hn::ScalableTag<C> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
        hn::StoreU(Op::Vector(hn::LoadU(d, result + i), hn::LoadU(d, a + i)), d, result + i);
    }
    for (; i < n; ++i) {
        result[i] = Op::Scalar(result[i], a[i]);
    }
}
template <class Op, typename C>
HWY_INLINE void TakeInRows(const C *const rows[4], int64_t n, C *HWY_RESTRICT result) {
    const hn::ScalableTag<C> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const auto load = [&](int row, int64_t i) HWY_ATTR { return hn::LoadU(d, rows[row] + i); };
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
        const auto four = Op::Vector(Op::Vector(load(0, i), load(1, i)), Op::Vector(load(2, i), load(3, i)));
        hn::StoreU(Op::Vector(hn::LoadU(d, result + i), four), d, result + i);
    }
    for (; i < n; ++i) {
        const C four = Op::Scalar(Op::Scalar(rows[0][i], rows[1][i]), Op::Scalar(rows[2][i], rows[3][i]));
        result[i] = Op::Scalar(result[i], four);
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#endif  // the toggled guard
