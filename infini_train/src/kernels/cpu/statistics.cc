#include "infini_train/src/kernels/statistics.h"

#include "infini_train/src/kernels/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "infini_train/src/kernels/cpu/statistics.cc"
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <mutex>
#include <span>
#include <type_traits>
#include <vector>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "infini_train/include/core/parallel.h"

#include "infini_train/src/kernels/cpu/convert.h"
#include "infini_train/src/kernels/cpu/finite.h"
#include "infini_train/src/kernels/cpu/reduction_plan.h"
#include "infini_train/src/kernels/cpu/scratch.h"
#include "infini_train/src/kernels/finite.h"
#include "infini_train/src/kernels/registry.h"

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using kernels::kHistogramBins;
using kernels::Moments;

// Elements that a thread takes at a time, whatever the number of threads.
inline constexpr int64_t kPart = 32768;
// With as many elements, neighbours are counted in different tables, for they often fall into the same bin.
inline constexpr int64_t kManyElements = 16384;
inline constexpr int64_t kTables = 4;
// A table's entries can't overflow before.
inline constexpr int64_t kFlush = int64_t{1} << 30;

/// Magnitudes between which the sums of a block neither overflow nor lose bits.
template <typename C>
inline constexpr C kSmall = std::is_same_v<C, float> ? C(1e-10) : C(0);
template <typename C>
inline constexpr C kLarge = std::is_same_v<C, float> ? C(1e15) : std::numeric_limits<C>::max();

/// Four vectors that take turns, so that an addition needn't wait for the one before.
template <class V>
struct Four {
    V a, b, c, d;
    HWY_INLINE explicit Four(V v) : a(v), b(v), c(v), d(v) {}
    HWY_INLINE V Sum() const { return hn::Add(hn::Add(a, b), hn::Add(c, d)); }
};

/// Takes in n <= kChunk elements, reading them twice from the cache. False, with nothing done, if not all of them are
/// finite and of a magnitude that C can square.
template <typename C, class D = hn::ScalableTag<C>, class V = hn::Vec<D>>
HWY_INLINE bool TakeIn(const C *HWY_RESTRICT x, int64_t n, Moments *total) {
    const D d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const V one = hn::Set(d, C{1});
    Four<V> sum(hn::Zero(d));
    V zero_count = hn::Zero(d);
    V low = hn::Set(d, x[0]);
    V high = low;
    const auto look = [&](int64_t i, V *to) HWY_ATTR {
        const V v = hn::LoadU(d, x + i);
        *to = hn::Add(*to, v);
        low = hn::Min(low, v);
        high = hn::Max(high, v);
        zero_count = hn::Add(zero_count, hn::IfThenElseZero(hn::Eq(v, hn::Zero(d)), one));
    };
    int64_t i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
        look(i, &sum.a);
        look(i + lanes, &sum.b);
        look(i + 2 * lanes, &sum.c);
        look(i + 3 * lanes, &sum.d);
    }
    for (; i + lanes <= n; i += lanes) {
        look(i, &sum.a);
    }
    C all = hn::GetLane(hn::SumOfLanes(d, sum.Sum()));
    C zeros = hn::GetLane(hn::SumOfLanes(d, zero_count));
    C least = hn::GetLane(hn::MinOfLanes(d, low));
    C most = hn::GetLane(hn::MaxOfLanes(d, high));
    for (int64_t j = i; j < n; ++j) {
        all += x[j];
        zeros += x[j] == C{0} ? C{1} : C{0};
        least = std::min(least, x[j]);
        most = std::max(most, x[j]);
    }
    // NaN and infinities are in the sum, whatever the minimum made of them.
    const C largest = std::max(-least, most);
    if (!(std::abs(all) <= std::numeric_limits<C>::max()) || largest > kLarge<C> ||
        (largest < kSmall<C> && largest != 0)) {
        return false;
    }
    const auto count = static_cast<double>(n);
    const auto near_mean = static_cast<C>(static_cast<double>(all) / count);
    const V middle = hn::Set(d, near_mean);
    Four<V> rest(hn::Zero(d));
    Four<V> squares(hn::Zero(d));
    const auto deviate = [&](int64_t i, V *to, V *square) HWY_ATTR {
        const V v = hn::Sub(hn::LoadU(d, x + i), middle);
        *to = hn::Add(*to, v);
        *square = hn::MulAdd(v, v, *square);
    };
    i = 0;
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
        deviate(i, &rest.a, &squares.a);
        deviate(i + lanes, &rest.b, &squares.b);
        deviate(i + 2 * lanes, &rest.c, &squares.c);
        deviate(i + 3 * lanes, &rest.d, &squares.d);
    }
    for (; i + lanes <= n; i += lanes) {
        deviate(i, &rest.a, &squares.a);
    }
    C left = hn::GetLane(hn::SumOfLanes(d, rest.Sum()));
    C squared = hn::GetLane(hn::SumOfLanes(d, squares.Sum()));
    for (; i < n; ++i) {
        const C v = x[i] - near_mean;
        left += v;
        squared += v * v;
    }
    // The rounded mean's error is what the deviations from it add up to.
    const double shift = static_cast<double>(left) / count;
    Moments block;
    block.finite = n;
    block.zeros = static_cast<int64_t>(zeros);
    block.mean = static_cast<double>(near_mean) + shift;
    block.squares = std::max(0.0, static_cast<double>(squared) - shift * static_cast<double>(left));
    block.min = static_cast<double>(least);
    block.max = static_cast<double>(most);
    total->Add(block);
    return true;
}

/// The same for any elements.
template <typename C>
HWY_NOINLINE void TakeInUncommon(const C *x, int64_t n, Moments *total) {
    double finite[kChunk];
    int64_t count = 0;
    int64_t nans = 0;
    for (int64_t i = 0; i < n; ++i) {
        finite[count] = static_cast<double>(x[i]);
        count += std::abs(x[i]) <= std::numeric_limits<C>::max() ? 1 : 0;
        nans += x[i] != x[i] ? 1 : 0;
    }
    total->nans += nans;
    total->infs += n - count - nans;
    if (count > 0 && !TakeIn(finite, count, total)) {
        // Doubles whose sum overflows.
        for (int64_t i = 0; i < count; ++i) {
            TakeIn(finite + i, 1, total);
        }
    }
}

/// Counts elements by the upper bits of their float32.
class Tally {
public:
    Tally(int64_t *bins, std::mutex *mutex, int64_t elements)
        : bins_(bins),
          mutex_(mutex),
          tables_(bins == nullptr            ? 0
                  : elements < kManyElements ? 1
                                             : kTables),
          counts_(tables_ * kHistogramBins) {
        std::fill_n(counts_.data(), tables_ * kHistogramBins, 0U);
    }
    ~Tally() { Flush(); }
    Tally(const Tally &) = delete;
    Tally &operator=(const Tally &) = delete;

    template <typename C>
    HWY_INLINE void Count(const C *HWY_RESTRICT x, int64_t n) {
        if (tables_ == 0) {
            return;
        }
        if (counted_ + n > kFlush) {
            Flush();
        }
        counted_ += n;
        uint32_t *HWY_RESTRICT table = counts_.data();
        const int64_t step = tables_ == 1 ? 0 : kHistogramBins;
        int64_t i = 0;
        for (; i + kTables <= n; i += kTables) {
            ++table[Bin(x[i])];
            ++table[step + Bin(x[i + 1])];
            ++table[2 * step + Bin(x[i + 2])];
            ++table[3 * step + Bin(x[i + 3])];
        }
        for (; i < n; ++i) {
            ++table[Bin(x[i])];
        }
    }

private:
    static HWY_INLINE uint32_t Bin(float x) { return std::bit_cast<uint32_t>(x) >> kernels::kHistogramShift; }
    static HWY_INLINE uint32_t Bin(double x) {
        constexpr double kMost = std::numeric_limits<float>::max();
        const bool finite = std::abs(x) <= std::numeric_limits<double>::max();
        return Bin(static_cast<float>(finite ? std::clamp(x, -kMost, kMost) : x));
    }

    void Flush() {
        if (counted_ == 0) {
            return;
        }
        const std::lock_guard<std::mutex> lock(*mutex_);
        for (int64_t table = 0; table < tables_; ++table) {
            uint32_t *from = counts_.data() + table * kHistogramBins;
            for (int64_t bin = 0; bin < kHistogramBins; ++bin) {
                bins_[bin] += from[bin];
                from[bin] = 0;
            }
        }
        counted_ = 0;
    }

    int64_t *const bins_;
    std::mutex *const mutex_;
    const int64_t tables_;
    const Scratch<uint32_t> counts_;
    int64_t counted_ = 0;
};

/// Calls body(elements, n) for blocks of at most kChunk of the elements at the positions [begin, end), counted along
/// `dims`, read as C.
template <typename C, typename Body>
void ForEachBlock(const ConstTensorRef &input, std::span<const ReduceDim> dims, int64_t begin, int64_t end,
                  const Body &body) {
    const ReduceDim row = dims.empty() ? ReduceDim{} : dims.back();
    const auto size = static_cast<int64_t>(SizeOf(input.dtype));
    const bool direct = input.dtype == kDataTypeOf<C> && row.stride == 1;
    const char *data = static_cast<const char *>(input.data);
    C buffer[kChunk];
    int64_t filled = 0;
    int64_t in_row = begin % row.size;
    Odometer at(dims.first(dims.empty() ? 0 : dims.size() - 1), begin / row.size);
    for (int64_t i = begin; i < end;) {
        const int64_t n = std::min({kChunk - filled, row.size - in_row, end - i});
        const char *from = data + (at.in() + in_row * row.stride) * size;
        i += n;
        in_row += n;
        if (in_row == row.size) {
            in_row = 0;
            at.Next();
        }
        if (direct && filled == 0 && (n == kChunk || i == end)) {
            body(reinterpret_cast<const C *>(from), n);
            continue;
        }
        LoadConverted(from, row.stride * size, input.dtype, buffer + filled, kDataTypeOf<C>, n);
        filled += n;
        if (filled == kChunk || i == end) {
            body(static_cast<const C *>(buffer), filled);
            filled = 0;
        }
    }
}

template <typename C>
void StatisticsAs(Moments *result, int64_t *bins, const ConstTensorRef &input) {
    const std::vector<int64_t> ones(static_cast<size_t>(input.ndim), 1);
    const TensorRef nothing{nullptr, ones.data(), ones.data(), input.ndim, input.dtype, 1, true};
    const std::vector<ReduceDim> dims = PlanReduction(nothing, input);
    const int64_t parts = (input.num_elements + kPart - 1) / kPart;
    std::vector<Moments> partials(static_cast<size_t>(parts));
    std::mutex mutex;
    ParallelFor(0, parts, 1, [&](int64_t first, int64_t last) HWY_ATTR {
        Tally tally(bins, &mutex, input.num_elements);
        for (int64_t part = first; part < last; ++part) {
            Moments *total = &partials[static_cast<size_t>(part)];
            ForEachBlock<C>(input, dims, part * kPart, std::min(input.num_elements, (part + 1) * kPart),
                            [&](const C *x, int64_t n) HWY_ATTR {
                                if (!TakeIn(x, n, total)) {
                                    TakeInUncommon(x, n, total);
                                }
                                tally.Count(x, n);
                            });
        }
    });
    for (const Moments &partial : partials) {
        result->Add(partial);
    }
}

void StatisticsAny(Moments *result, int64_t *bins, const ConstTensorRef &input) {
    if (input.dtype != DataType::kFLOAT64 && IsFloatingPoint(input.dtype)) {
        StatisticsAs<float>(result, bins, input);
    } else {
        StatisticsAs<double>(result, bins, input);
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace infini_train {
namespace cpu {
namespace {

HWY_EXPORT(StatisticsAny);

void StatisticsKernel(kernels::Moments *result, int64_t *bins, ConstTensorRef input) {
    *result = {};
    HWY_DYNAMIC_DISPATCH(StatisticsAny)(result, bins, input);
}

}  // namespace
}  // namespace cpu

namespace kernels {

void RegisterStatisticsCpu() {
    RegisterKernel<FindNonFinite>(DeviceType::kCPU, &cpu::FindNonFiniteKernel);
    RegisterKernel<Statistics>(DeviceType::kCPU, &cpu::StatisticsKernel);
}

}  // namespace kernels
}  // namespace infini_train
#endif
