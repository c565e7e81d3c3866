#include "infini_train/include/utils/tensor_statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <utility>

#include "infini_train/include/common/error.h"
#include "infini_train/include/core/dispatcher.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/kernels/statistics.h"
#include "infini_train/src/tensor/ref.h"

namespace infini_train::utils {
namespace {

using kernels::kHistogramBins;
using kernels::kHistogramShift;

constexpr int kPositiveBins = kHistogramBins / 2;
constexpr int kFiniteBins = kPositiveBins - 8;  // without the exponent of infinities and NaN

double BinEdge(int bin) {
    // The end of the last bin would be infinity.
    return bin == kFiniteBins ? 0x1p128 : std::bit_cast<float>(static_cast<uint32_t>(bin) << kHistogramShift);
}

std::vector<HistogramBin> ToHistogram(std::vector<int64_t> &counts, const TensorStatistics &of) {
    std::vector<HistogramBin> histogram;
    // Zeros lie in the first bin of either sign, beside the smallest denormals.
    const int64_t negative_zeros = std::min(counts[kPositiveBins], of.zeros);
    counts[kPositiveBins] -= negative_zeros;
    counts[0] -= of.zeros - negative_zeros;
    for (int bin = kFiniteBins - 1; bin >= 0; --bin) {
        if (const int64_t count = counts[static_cast<size_t>(kPositiveBins + bin)]; count > 0) {
            histogram.push_back({-BinEdge(bin + 1), -BinEdge(bin), count});
        }
    }
    if (of.zeros > 0) {
        histogram.push_back({0, 0, of.zeros});
    }
    for (int bin = 0; bin < kFiniteBins; ++bin) {
        if (const int64_t count = counts[static_cast<size_t>(bin)]; count > 0) {
            histogram.push_back({BinEdge(bin), BinEdge(bin + 1), count});
        }
    }
    if (!histogram.empty()) {
        histogram.front().low = of.min;
        histogram.back().high = of.max;
    }
    return histogram;
}

TensorStatistics ToStatistics(const kernels::Moments &moments, int64_t count) {
    TensorStatistics statistics;
    statistics.count = count;
    statistics.zeros = moments.zeros;
    statistics.nans = moments.nans;
    statistics.infs = moments.infs;
    if (moments.finite > 0) {
        statistics.mean = moments.mean;
        statistics.std = std::sqrt(moments.squares / static_cast<double>(moments.finite));
        statistics.min = moments.min;
        statistics.max = moments.max;
    }
    return statistics;
}

// Bins of equal edges become one; so do those that overlap, as an outermost bin, which ends at an extreme value, may.
std::vector<HistogramBin> MergeHistograms(const std::vector<HistogramBin> &a, const std::vector<HistogramBin> &b) {
    std::vector<HistogramBin> all(a.size() + b.size());
    std::merge(a.begin(), a.end(), b.begin(), b.end(), all.begin(), [](const HistogramBin &x, const HistogramBin &y) {
        return x.low < y.low || (x.low == y.low && x.high < y.high);
    });
    std::vector<HistogramBin> merged;
    for (const HistogramBin &bin : all) {
        HistogramBin *last = merged.empty() ? nullptr : &merged.back();
        if (last != nullptr && (bin.low < last->high || (bin.low == last->low && bin.high == last->high))) {
            last->high = std::max(last->high, bin.high);
            last->count += bin.count;
        } else {
            merged.push_back(bin);
        }
    }
    return merged;
}

}  // namespace

double TensorStatistics::RootMeanSquare() const {
    return Finite() == 0 ? 0 : std::hypot(mean, std);
}

double TensorStatistics::Norm() const {
    return RootMeanSquare() * std::sqrt(static_cast<double>(Finite()));
}

void TensorStatistics::Merge(const TensorStatistics &other) {
    const auto moments_of = [](const TensorStatistics &s) {
        kernels::Moments moments{s.Finite(), s.zeros, s.nans, s.infs, 0, 0};
        if (moments.finite > 0) {
            moments.mean = s.mean;
            moments.squares = s.std * s.std * static_cast<double>(moments.finite);
            moments.min = s.min;
            moments.max = s.max;
        }
        return moments;
    };
    const bool keeps_histogram =
        (Finite() == 0 || !histogram.empty()) && (other.Finite() == 0 || !other.histogram.empty());
    std::vector<HistogramBin> bins =
        keeps_histogram ? MergeHistograms(histogram, other.histogram) : std::vector<HistogramBin>();
    kernels::Moments moments = moments_of(*this);
    moments.Add(moments_of(other));
    const int64_t elements = count + other.count;
    *this = ToStatistics(moments, elements);
    histogram = std::move(bins);
}

TensorStatistics ComputeStatistics(const Tensor &tensor, bool histogram) {
    if (tensor.NumElements() == 0) {
        return {};
    }
    kernels::Moments moments;
    std::vector<int64_t> counts(histogram ? kHistogramBins : 0);
    Dispatch<kernels::Statistics>(tensor.GetDevice(), &moments, histogram ? counts.data() : nullptr, Ref(tensor));
    TensorStatistics statistics = ToStatistics(moments, tensor.NumElements());
    if (histogram) {
        statistics.histogram = ToHistogram(counts, statistics);
    }
    return statistics;
}

std::vector<double> Rebin(const std::vector<HistogramBin> &histogram, double low, double high, int bins) {
    if (bins < 1 || !(low < high)) {
        Throw<ValueError>("Rebin: expected at least one bin and low < high, got {} bins from {} to {}", bins, low,
                          high);
    }
    std::vector<double> counts(static_cast<size_t>(bins));
    const double scale = bins / (high - low);
    const auto bin_of = [&](double position) { return static_cast<size_t>(std::clamp(position, 0.0, bins - 1.0)); };
    for (const HistogramBin &from : histogram) {
        const auto count = static_cast<double>(from.count);
        const double begin = (from.low - low) * scale;
        const double end = (from.high - low) * scale;
        const size_t first = bin_of(begin);
        const size_t last = bin_of(end);
        if (first == last || !(begin < end)) {
            counts[first] += count;
            continue;
        }
        for (size_t bin = first; bin <= last; ++bin) {
            const double from_here = bin == first ? begin : static_cast<double>(bin);
            const double to_here = bin == last ? end : static_cast<double>(bin + 1);
            counts[bin] += count * (to_here - from_here) / (end - begin);
        }
    }
    return counts;
}

}  // namespace infini_train::utils
