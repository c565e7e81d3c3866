#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "infini_train/include/core/dispatcher.h"

#include "infini_train/src/kernels/tensor_ref.h"

namespace infini_train::kernels {

/// What is known of a number of elements, in the host's memory whatever the device. Moments are those of the finite
/// elements: Add takes in others' (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing
/// sample variances", 1979).
struct Moments {
    int64_t finite = 0;
    int64_t zeros = 0;
    int64_t nans = 0;
    int64_t infs = 0;
    double mean = 0;
    double squares = 0;  ///< the sum of (x - mean)^2
    double min = std::numeric_limits<double>::infinity();
    double max = -std::numeric_limits<double>::infinity();

    constexpr void Add(const Moments &other) {
        zeros += other.zeros;
        nans += other.nans;
        infs += other.infs;
        if (other.finite == 0) {
            return;
        }
        const double step = other.mean - mean;
        const double share = static_cast<double>(other.finite) / static_cast<double>(finite + other.finite);
        squares += other.squares + step * step * share * static_cast<double>(finite);
        mean += step * share;
        finite += other.finite;
        min = other.min < min ? other.min : min;
        max = other.max > max ? other.max : max;
    }
};

/// The bins of a histogram: the upper bits of a float32, which are its sign, its exponent and three bits of its
/// mantissa, so that each power of two is cut into eight.
inline constexpr int kHistogramShift = 20;
inline constexpr int kHistogramBins = 1 << (32 - kHistogramShift);

/// Any data type (64-bit integers as the nearest double), any strides. `bins`, kHistogramBins long, may be null;
/// otherwise its entries are increased. Those of NaN and of infinities mean nothing; float64 beyond float32's range
/// counts as the largest finite number. No result depends on the number of threads.
struct Statistics : KernelTag<void(Moments *result, int64_t *bins, ConstTensorRef input)> {
    static constexpr const char *kName = "Statistics";
};

}  // namespace infini_train::kernels
