#include "infini_train/include/utils/tensor_statistics.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/core/parallel.h"
#include "infini_train/include/tensor.h"

namespace infini_train::utils {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

int64_t CountOf(const std::vector<HistogramBin> &histogram) {
    return std::accumulate(histogram.begin(), histogram.end(), int64_t{0},
                           [](int64_t sum, const HistogramBin &bin) { return sum + bin.count; });
}

/// Two plain loops in long double.
TensorStatistics Reference(const std::vector<double> &values) {
    TensorStatistics s;
    s.count = static_cast<int64_t>(values.size());
    long double sum = 0;
    s.min = kInf;
    s.max = -kInf;
    for (const double v : values) {
        s.nans += std::isnan(v) ? 1 : 0;
        s.infs += std::isinf(v) ? 1 : 0;
        s.zeros += v == 0 ? 1 : 0;
        if (std::isfinite(v)) {
            sum += v;
            s.min = std::min(s.min, v);
            s.max = std::max(s.max, v);
        }
    }
    const long double mean = sum / static_cast<long double>(s.Finite());
    long double squares = 0;
    for (const double v : values) {
        squares += std::isfinite(v) ? (v - mean) * (v - mean) : 0;
    }
    s.mean = static_cast<double>(mean);
    s.std = static_cast<double>(std::sqrt(squares / static_cast<long double>(s.Finite())));
    return s;
}

void ExpectEqual(const TensorStatistics &actual, const TensorStatistics &expected, double tolerance) {
    EXPECT_EQ(actual.count, expected.count);
    EXPECT_EQ(actual.zeros, expected.zeros);
    EXPECT_EQ(actual.nans, expected.nans);
    EXPECT_EQ(actual.infs, expected.infs);
    EXPECT_EQ(actual.min, expected.min);
    EXPECT_EQ(actual.max, expected.max);
    EXPECT_NEAR(actual.mean, expected.mean, tolerance * (std::abs(expected.mean) + expected.std));
    EXPECT_NEAR(actual.std, expected.std, tolerance * expected.std);
}

TEST(TensorStatistics, ByHand) {
    const auto x = Tensor::FromVector<double>({1, 2, 3, 4, 0, -0.0, -4, kNan, -kInf, kInf})->To(DataType::kFLOAT32);
    const TensorStatistics s = ComputeStatistics(*x, /*histogram=*/true);
    EXPECT_EQ(s.count, 10);
    EXPECT_EQ(s.zeros, 2);
    EXPECT_EQ(s.nans, 1);
    EXPECT_EQ(s.infs, 2);
    EXPECT_EQ(s.Finite(), 7);
    EXPECT_DOUBLE_EQ(s.mean, 6.0 / 7);
    EXPECT_DOUBLE_EQ(s.std, std::sqrt(46.0 / 7 - 36.0 / 49));
    EXPECT_EQ(s.min, -4);
    EXPECT_EQ(s.max, 4);
    EXPECT_DOUBLE_EQ(s.Norm(), std::sqrt(46.0));
    EXPECT_DOUBLE_EQ(s.RootMeanSquare(), std::sqrt(46.0 / 7));
    EXPECT_DOUBLE_EQ(s.ZeroShare(), 0.2);
    EXPECT_DOUBLE_EQ(s.NonFiniteShare(), 0.3);

    ASSERT_EQ(s.histogram.size(), 6U);
    const double expected[6][3] = {{-4, -4, 1}, {0, 0, 2}, {1, 1.125, 1}, {2, 2.25, 1}, {3, 3.25, 1}, {4, 4, 1}};
    for (size_t i = 0; i < 6; ++i) {
        EXPECT_EQ(s.histogram[i].low, expected[i][0]) << i;
        EXPECT_EQ(s.histogram[i].high, expected[i][1]) << i;
        EXPECT_EQ(s.histogram[i].count, static_cast<int64_t>(expected[i][2])) << i;
    }
}

// numpy.random.default_rng's numbers aren't ours, so: x_i = sin(i) * 3 + 0.5, i < 100000, and numpy's answers in
// float64.
TEST(TensorStatistics, Numpy) {
    std::vector<double> values(100000);
    for (size_t i = 0; i < values.size(); ++i) {
        values[i] = std::sin(static_cast<double>(i)) * 3 + 0.5;
    }
    const TensorStatistics s = ComputeStatistics(*Tensor::FromVector(values));
    EXPECT_NEAR(s.mean, 0.5000543608491698, 1e-14);
    EXPECT_NEAR(s.std, 2.121320572616849, 1e-14);
    EXPECT_NEAR(s.min, -2.4999999999545013, 1e-15);
    EXPECT_NEAR(s.max, 3.499999999089539, 1e-15);
    EXPECT_TRUE(s.histogram.empty());
}

TEST(TensorStatistics, EveryDtype) {
    for (const DataType dtype :
         {DataType::kBOOL, DataType::kUINT8, DataType::kINT8, DataType::kUINT16, DataType::kINT16, DataType::kUINT32,
          DataType::kINT32, DataType::kUINT64, DataType::kINT64, DataType::kBFLOAT16, DataType::kFLOAT16,
          DataType::kFLOAT32, DataType::kFLOAT64}) {
        SCOPED_TRACE(ToString(dtype));
        const auto x = Tensor::RandInt(0, 100, {70000})->To(dtype);
        const TensorStatistics s = ComputeStatistics(*x, /*histogram=*/true);
        ExpectEqual(s, Reference(x->ToVector<double>()), 1e-6);
        EXPECT_EQ(CountOf(s.histogram), 70000);
    }
}

TEST(TensorStatistics, EveryLength) {
    const auto x = Tensor::Randn({1200});
    for (int64_t n = 1; n <= 1200; n += n < 140 ? 1 : 97) {
        SCOPED_TRACE(n);
        const auto part = x->Narrow(0, 1200 - n, n);
        ExpectEqual(ComputeStatistics(*part), Reference(part->ToVector<double>()), 1e-6);
    }
}

TEST(TensorStatistics, AnyStrides) {
    const auto x = Tensor::Randn({30, 40, 50});
    for (const TensorPtr &view : {x->Transpose(0, 2), x->Narrow(2, 3, 7), x->Narrow(1, 5, 20)->Transpose(1, 2),
                                  x->Narrow(0, 1, 1), x->Narrow(2, 4, 1)->Expand({30, 40, 9}),
                                  x->Narrow(1, 2, 1)->Narrow(2, 1, 1), x->Permute({2, 0, 1}), x->Slice(2, 1, 50, 3)}) {
        ExpectEqual(ComputeStatistics(*view, true), Reference(view->ToVector<double>()), 1e-6);
        EXPECT_EQ(CountOf(ComputeStatistics(*view, true).histogram), view->NumElements());
    }
}

TEST(TensorStatistics, EmptyAndSingle) {
    const TensorStatistics none = ComputeStatistics(*Tensor::Empty({0, 3}), true);
    EXPECT_EQ(none.count, 0);
    EXPECT_TRUE(std::isnan(none.mean) && std::isnan(none.std) && std::isnan(none.min) && std::isnan(none.max));
    EXPECT_EQ(none.ZeroShare(), 0);
    EXPECT_EQ(none.NonFiniteShare(), 0);
    EXPECT_EQ(none.Norm(), 0);
    EXPECT_TRUE(none.histogram.empty());

    const TensorStatistics nothing_finite = ComputeStatistics(*Tensor::FromVector<double>({kNan, kInf, kNan}), true);
    EXPECT_EQ(nothing_finite.nans, 2);
    EXPECT_EQ(nothing_finite.infs, 1);
    EXPECT_TRUE(std::isnan(nothing_finite.mean) && std::isnan(nothing_finite.min));
    EXPECT_TRUE(nothing_finite.histogram.empty());

    const TensorStatistics one = ComputeStatistics(*Tensor::FromScalar(-2.5), true);
    EXPECT_EQ(one.mean, -2.5);
    EXPECT_EQ(one.std, 0);
    ASSERT_EQ(one.histogram.size(), 1U);
    EXPECT_EQ(one.histogram[0].low, -2.5);
    EXPECT_EQ(one.histogram[0].high, -2.5);
}

// Numbers whose squares leave float32's range, and ones that hardly differ.
TEST(TensorStatistics, ExtremeValues) {
    for (const double scale : {1e-42, 1e-30, 1e-19, 1e-12, 1e10, 1e18, 1e30, 1e38}) {
        for (const double offset : {0.0, 0.5}) {
            SCOPED_TRACE(scale);
            const auto x = Tensor::Rand({5000})->Add(offset)->Mul(scale);
            ExpectEqual(ComputeStatistics(*x), Reference(x->ToVector<double>()), 2e-6);
        }
    }
    const auto near_a_million = Tensor::Rand({50000})->Add(1e6);
    ExpectEqual(ComputeStatistics(*near_a_million), Reference(near_a_million->ToVector<double>()), 1e-6);
    const auto large = Tensor::FromVector<double>({1e308, 1.5e308, 1e308});
    EXPECT_DOUBLE_EQ(ComputeStatistics(*large).mean, 3.5 / 3 * 1e308);
    EXPECT_EQ(ComputeStatistics(*large, true).histogram.size(), 1U);
    const auto integers = Tensor::FromVector<uint64_t>({uint64_t{1} << 63, 0});
    EXPECT_EQ(ComputeStatistics(*integers).max, 0x1p63);
    EXPECT_EQ(ComputeStatistics(*integers).mean, 0x1p62);
}

TEST(TensorStatistics, SomeNonFinite) {
    std::vector<float> values(100000);
    for (size_t i = 0; i < values.size(); ++i) {
        values[i] = i % 1001 == 7  ? static_cast<float>(kNan)
                    : i % 777 == 3 ? static_cast<float>(i % 2 == 0 ? kInf : -kInf)
                    : i % 5 == 0   ? 0.0F
                                   : static_cast<float>(std::cos(static_cast<double>(i)));
    }
    const auto x = Tensor::FromVector(values);
    const TensorStatistics s = ComputeStatistics(*x, true);
    ExpectEqual(s, Reference(x->ToVector<double>()), 1e-6);
    EXPECT_EQ(CountOf(s.histogram), s.Finite());
}

TEST(TensorStatistics, TheNumberOfThreadsChangesNothing) {
    const auto x = Tensor::Randn({300, 1001});
    const int threads = GetNumThreads();
    SetNumThreads(1);
    const TensorStatistics one = ComputeStatistics(*x, true);
    for (const int n : {2, 3, 8}) {
        SetNumThreads(n);
        const TensorStatistics many = ComputeStatistics(*x, true);
        EXPECT_EQ(many.mean, one.mean);
        EXPECT_EQ(many.std, one.std);
        ASSERT_EQ(many.histogram.size(), one.histogram.size());
        for (size_t i = 0; i < one.histogram.size(); ++i) {
            EXPECT_EQ(many.histogram[i].count, one.histogram[i].count);
        }
    }
    SetNumThreads(threads);
}

// Every bin against a count over all elements.
TEST(TensorStatistics, HistogramCountsWhatItSays) {
    const auto x = Tensor::Randn({20000})->Mul(Tensor::Randn({20000})->Exp());
    const std::vector<double> values = x->ToVector<double>();
    const auto histogram = ComputeStatistics(*x, true).histogram;
    EXPECT_EQ(CountOf(histogram), 20000);
    double end = -kInf;
    for (size_t i = 0; i < histogram.size(); ++i) {
        const HistogramBin &bin = histogram[i];
        EXPECT_GE(bin.low, end);
        end = bin.high;
        EXPECT_LE(bin.high - bin.low, 0.126 * std::max(std::abs(bin.low), std::abs(bin.high)));
        int64_t inside = 0;
        for (const double v : values) {
            const bool first = i == 0 && v == bin.low;
            const bool last = i + 1 == histogram.size() && v == bin.high;
            inside += (v > 0 ? v >= bin.low && v < bin.high : v > bin.low && v <= bin.high) || first || last ? 1 : 0;
        }
        EXPECT_EQ(bin.count, inside) << bin.low << " to " << bin.high;
    }
}

TEST(Rebin, SpreadsEvenly) {
    const std::vector<HistogramBin> histogram = {{-1, -0.5, 4}, {0, 0, 3}, {1, 3, 8}};
    EXPECT_EQ(Rebin(histogram, -1, 3, 4), (std::vector<double>{4, 3, 4, 4}));
    EXPECT_EQ(Rebin(histogram, -1, 3, 8), (std::vector<double>{4, 0, 3, 0, 2, 2, 2, 2}));
    EXPECT_EQ(Rebin(histogram, 0, 2, 2), (std::vector<double>{7, 8}));  // outside: into the nearest
    EXPECT_EQ(Rebin({}, 0, 1, 2), (std::vector<double>{0, 0}));
    EXPECT_THROW(Rebin(histogram, 1, 1, 4), ValueError);
    EXPECT_THROW(Rebin(histogram, 0, 1, 0), ValueError);
    EXPECT_THROW(Rebin(histogram, kNan, 1, 2), ValueError);
}

}  // namespace
}  // namespace infini_train::utils
