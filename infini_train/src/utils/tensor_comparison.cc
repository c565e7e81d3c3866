#include "infini_train/include/utils/tensor_comparison.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "infini_train/include/common/error.h"
#include "infini_train/include/dtype_dispatch.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"

namespace infini_train::utils {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// Bits of the significand; those of no floating-point type are exact.
int Precision(DataType dtype) {
    switch (dtype) {
        case DataType::kBFLOAT16:
            return 8;
        case DataType::kFLOAT16:
            return 11;
        case DataType::kFLOAT32:
            return 24;
        case DataType::kFLOAT64:
            return 53;
        default:
            return 64;
    }
}

DataType Coarser(DataType a, DataType b) {
    return Precision(a) <= Precision(b) ? a : b;
}

template <typename T>
T Round(double value) {
    if constexpr (std::is_arithmetic_v<T>) {
        return static_cast<T>(value);
    } else {
        return T(static_cast<float>(value));
    }
}

// Numbers in the order of their values: neighbours of a type differ by 1.
template <typename T>
int64_t Rank(double value) {
    using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;
    const auto bits = std::bit_cast<Bits>(Round<T>(value));
    constexpr Bits kSign = Bits{1} << (std::numeric_limits<Bits>::digits - 1);
    const auto magnitude = static_cast<int64_t>(bits & static_cast<Bits>(~kSign));
    return (bits & kSign) != 0 ? -magnitude : magnitude;
}

// What CompareTensors sums up on its way; V is double, int64_t or uint64_t.
template <typename V>
class Comparer {
public:
    Comparer(DataType dtype, Tolerance tolerance) : dtype_(dtype), tolerance_(tolerance) {}

    void Add(int64_t position, V baseline, V other) {
        const auto b = static_cast<double>(baseline);
        const auto x = static_cast<double>(other);
        if (std::isfinite(b) && std::isfinite(x)) {
            dot_ += b * x;
            squares_b_ += b * b;
            squares_x_ += x * x;
        }
        if (baseline == other || (std::isnan(b) && std::isnan(x))) {
            return;
        }
        difference_.identical = false;
        const double apart = Apart(baseline, other);
        difference_.max_abs = std::max(difference_.max_abs, apart);
        if (b != 0) {
            difference_.max_rel = std::max(difference_.max_rel, std::isinf(apart) ? kInf : apart / std::abs(b));
        }
        if (IsFloatingPoint(dtype_)) {
            difference_.max_ulp = std::max(difference_.max_ulp, UlpDistance(b, x, dtype_));
        }
        const double allowed = tolerance_.atol + tolerance_.rtol * (std::isfinite(b) ? std::abs(b) : 0);
        const double excess = apart - allowed;
        difference_.outside += excess > 0 ? 1 : 0;
        if (excess > worst_excess_) {
            worst_excess_ = excess;
            worst_ = position;
            difference_.worst_baseline = b;
            difference_.worst_other = x;
        }
    }

    TensorDifference Finish(const std::vector<int64_t> &dims, int64_t count) {
        difference_.count = count;
        difference_.within = difference_.outside == 0;
        const double norms = std::sqrt(squares_b_) * std::sqrt(squares_x_);
        if (norms > 0) {
            difference_.cosine = std::clamp(dot_ / norms, -1.0, 1.0);
        } else {
            difference_.cosine = squares_b_ == squares_x_ ? 1 : 0;
        }
        if (worst_ >= 0) {
            difference_.worst.resize(dims.size());
            for (size_t d = dims.size(); d-- > 0; worst_ /= dims[d]) {
                difference_.worst[d] = worst_ % dims[d];
            }
        }
        return difference_;
    }

private:
    static double Apart(V baseline, V other) {
        if constexpr (std::is_same_v<V, double>) {
            const double apart = std::abs(other - baseline);
            return std::isnan(apart) ? kInf : apart;
        } else {
            const auto low = static_cast<uint64_t>(std::min(baseline, other));
            return static_cast<double>(static_cast<uint64_t>(std::max(baseline, other)) - low);
        }
    }

    const DataType dtype_;
    const Tolerance tolerance_;
    TensorDifference difference_;
    double worst_excess_ = -kInf;
    int64_t worst_ = -1;
    double dot_ = 0;
    double squares_b_ = 0;
    double squares_x_ = 0;
};

template <typename V>
TensorDifference CompareAs(const Tensor &baseline, const Tensor &other, DataType dtype, Tolerance tolerance) {
    const std::vector<V> left = baseline.ToVector<V>();
    const std::vector<V> right = other.ToVector<V>();
    Comparer<V> comparer(dtype, tolerance);
    for (size_t i = 0; i < left.size(); ++i) {
        comparer.Add(static_cast<int64_t>(i), left[i], right[i]);
    }
    return comparer.Finish(baseline.Dims(), baseline.NumElements());
}

}  // namespace

Tolerance DefaultTolerance(DataType dtype) {
    switch (dtype) {
        case DataType::kFLOAT16:
            return {1e-3, 1e-5};
        case DataType::kBFLOAT16:
            return {1.6e-2, 1e-5};
        case DataType::kFLOAT32:
            return {1.3e-6, 1e-5};
        case DataType::kFLOAT64:
            return {1e-7, 1e-7};
        default:
            return {};
    }
}

uint64_t UlpDistance(double a, double b, DataType dtype) {
    return DispatchFloatingDtype(dtype, "UlpDistance", [&]<typename T>() -> uint64_t {
        if (std::isnan(a) || std::isnan(b)) {
            return std::isnan(a) && std::isnan(b) ? 0 : std::numeric_limits<uint64_t>::max();
        }
        const int64_t first = Rank<T>(a);
        const int64_t second = Rank<T>(b);
        // Unsigned, since the difference of two float64 may not fit.
        return static_cast<uint64_t>(std::max(first, second)) - static_cast<uint64_t>(std::min(first, second));
    });
}

TensorDifference CompareTensors(const Tensor &baseline, const Tensor &other, std::optional<Tolerance> tolerance) {
    if (baseline.Dims() != other.Dims()) {
        TensorDifference difference;
        difference.within = difference.identical = false;
        difference.mismatch = FormatDims(baseline.Dims()) + " against " + FormatDims(other.Dims());
        return difference;
    }
    const DataType dtype = Coarser(baseline.Dtype(), other.Dtype());
    const Tolerance allowed = tolerance.value_or(DefaultTolerance(dtype));
    if (IsFloatingPoint(dtype)) {
        return CompareAs<double>(baseline, other, dtype, allowed);
    }
    const bool is_unsigned = baseline.Dtype() == DataType::kUINT64 && other.Dtype() == DataType::kUINT64;
    return is_unsigned ? CompareAs<uint64_t>(baseline, other, dtype, allowed)
                       : CompareAs<int64_t>(baseline, other, dtype, allowed);
}

}  // namespace infini_train::utils
