#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train::utils {

/// How many elements lie between `low` and `high`: in [low, high) above zero, in (low, high] below it; the outermost
/// bins contain both their ends. Zeros have a bin of their own, from 0 to 0.
struct HistogramBin {
    double low = 0;
    double high = 0;
    int64_t count = 0;
};

/// A tensor in a few numbers. Mean, standard deviation, minimum and maximum are those of the finite elements, NaN if
/// there are none.
struct INFINI_TRAIN_EXPORT TensorStatistics {
    int64_t count = 0;  ///< all elements
    int64_t zeros = 0;  ///< of either sign
    int64_t nans = 0;
    int64_t infs = 0;  ///< of either sign
    double mean = std::numeric_limits<double>::quiet_NaN();
    double std =
        std::numeric_limits<double>::quiet_NaN();  ///< of the population: the squares are divided by their number
    double min = std::numeric_limits<double>::quiet_NaN();
    double max = std::numeric_limits<double>::quiet_NaN();
    /// From the lowest value to the highest, bins that aren't empty only; the finite elements. Eight bins to each power
    /// of two, so that the next bin is wider by a factor between 1.07 and 1.13. The outermost bins end at `min` and
    /// `max`.
    std::vector<HistogramBin> histogram;

    int64_t NonFinite() const { return nans + infs; }
    int64_t Finite() const { return count - NonFinite(); }
    /// Shares of all elements, 0 to 1; 0 if there are none.
    double ZeroShare() const { return count == 0 ? 0 : static_cast<double>(zeros) / static_cast<double>(count); }
    double NonFiniteShare() const {
        return count == 0 ? 0 : static_cast<double>(NonFinite()) / static_cast<double>(count);
    }
    /// The Euclidean norm of the finite elements, and the root of the mean of their squares; 0 if there are none.
    double Norm() const;
    double RootMeanSquare() const;
    /// Becomes the statistics of both tensors' elements together. There is a histogram if both have one, or one of them
    /// has no finite elements.
    void Merge(const TensorStatistics &other);
};

/// Reads a tensor of any data type and strides once, with as many threads as there are; the result doesn't depend on
/// their number. Elements count as float64 (an integer beyond 2^53 as the nearest one); where squares leave float64's
/// range (beyond 1e154), so does the standard deviation. The histogram is wanted or not.
INFINI_TRAIN_EXPORT TensorStatistics ComputeStatistics(const Tensor &tensor, bool histogram = false);

/// A histogram of `bins` bins of equal width from `low` to `high`: each of the given bins is spread evenly over what it
/// covers, and what lies outside goes into the nearest bin. Throws ValueError if bins < 1 or not low < high.
INFINI_TRAIN_EXPORT std::vector<double> Rebin(const std::vector<HistogramBin> &histogram, double low, double high,
                                              int bins);

}  // namespace infini_train::utils
