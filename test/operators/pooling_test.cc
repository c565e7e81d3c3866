#include "infini_train/include/autograd/pooling.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/core/parallel.h"
#include "infini_train/include/tensor.h"

#include "test/operators/derivative.h"
#include "test/support/instruction_sets.h"

namespace infini_train {
namespace {

using autograd::Pool2dOptions;
using test::ExpectDerivatives;
using test::ExpectError;
using test::NoiseTensor;
using Dims = std::vector<int64_t>;
using Floats = std::vector<float>;

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNaN = std::nanf("");

TensorPtr MaxOf(const TensorPtr &x, const Pool2dOptions &o) {
    return std::make_shared<autograd::MaxPool2d>(o.kernel, o.stride, o.padding, o.dilation, o.ceil_mode)->Apply({x})[0];
}
TensorPtr AvgOf(const TensorPtr &x, const Pool2dOptions &o) {
    return std::make_shared<autograd::AvgPool2d>(o)->Apply({x})[0];
}

// 1, -2, 3, -4, ... 25 in a (1, 5, 5) image.
TensorPtr Alternating() {
    Floats values;
    for (int i = 1; i <= 25; ++i) {
        values.push_back(static_cast<float>(i % 2 == 1 ? i : -i));
    }
    return Tensor::FromVector(values, Dims{1, 5, 5});
}
TensorPtr Counting() {
    return Tensor::Arange(1, 26, 1, DataType::kFLOAT32)->View({1, 5, 5});
}

// The places that get the gradient of a sum of squares of the maxima, read off it.
void ExpectMaxima(const Pool2dOptions &o, const Dims &dims, const Floats &values, const std::vector<int64_t> &places) {
    auto x = Alternating()->RequiresGrad();
    const auto y = MaxOf(x, o);
    EXPECT_EQ(y->Dims(), dims);
    EXPECT_EQ(y->ToVector<float>(), values);
    Floats weights, grad(25);
    for (size_t i = 0; i < places.size(); ++i) {
        weights.push_back(static_cast<float>(1 << i));
        grad[static_cast<size_t>(places[i])] += weights.back();
    }
    y->Backward(Tensor::FromVector(weights, dims));
    EXPECT_EQ(x->grad()->ToVector<float>(), grad);
}

// Values and places as PyTorch 2 gives them.
TEST(MaxPool2d, GivesPyTorchsValuesAndPlaces) {
    ExpectMaxima({.kernel = 3, .stride = 2, .padding = 1}, {1, 3, 3}, {7, 9, 9, 17, 19, 19, 21, 23, 25},
                 {6, 8, 8, 16, 18, 18, 20, 22, 24});
    ExpectMaxima({.kernel = 2, .stride = 2, .ceil_mode = true}, {1, 3, 3}, {7, 9, 5, 17, 19, 15, 21, 23, 25},
                 {6, 8, 4, 16, 18, 14, 20, 22, 24});
    ExpectMaxima({.kernel = 2, .stride = 3, .padding = 1, .ceil_mode = true}, {1, 2, 2}, {1, 3, 11, 19},
                 {0, 2, 10, 18});
    ExpectMaxima({.kernel = 2, .stride = 1, .dilation = 3}, {1, 2, 2}, {19, 17, 21, 25}, {18, 16, 20, 24});
    ExpectMaxima({.kernel = {1, 3}, .stride = {2, 1}, .padding = {0, 1}, .dilation = {1, 2}}, {1, 3, 3},
                 {-2, 5, -2, -12, 15, -12, -22, 25, -22}, {1, 4, 1, 11, 14, 11, 21, 24, 21});
}

TEST(MaxPool2d, NaNWinsAndTheFirstOfEqualsGetsTheGradient) {
    auto x =
        Tensor::FromVector<float>({1, 3, 2, -1, 4, kNaN, 0, 5, -kInf, -kInf, 7, 7, -kInf, -kInf, 7, 6}, Dims{1, 4, 4})
            ->RequiresGrad();
    const auto y = std::make_shared<autograd::MaxPool2d>(2)->Apply({x})[0];
    const auto values = y->ToVector<float>();
    EXPECT_TRUE(std::isnan(values[0]));
    EXPECT_EQ((Floats{values[1], values[2], values[3]}), (Floats{5, -kInf, 7}));
    y->Backward(Tensor::FromVector<float>({1, 2, 3, 4}, Dims{1, 2, 2}));
    EXPECT_EQ(x->grad()->ToVector<float>(), (Floats{0, 0, 0, 0, 0, 1, 0, 2, 3, 0, 4, 0, 0, 0, 0, 0}));
    // A NaN that comes first stays.
    const auto first = Tensor::FromVector<float>({kNaN, 1, 2, 3}, Dims{1, 2, 2});
    EXPECT_TRUE(std::isnan(MaxOf(first, {.kernel = 2, .stride = 2})->Item<float>()));
}

// Few different values, so that there are ties, with NaN and -inf among them, in rows shorter and longer than a vector.
TEST(MaxPool2d, TwoByTwoAgreesWithAPlainLoopOnEveryInstructionSet) {
    test::ForEachInstructionSet([] {
        for (int64_t width = 2; width <= 70; ++width) {
            const auto noise = test::Noise(2 * 5 * width, static_cast<uint64_t>(width));
            Floats values;
            for (const double x : noise) {
                values.push_back(x > 0.9 ? kNaN : x < -0.6 ? -kInf : static_cast<float>(std::floor(x * 4)));
            }
            auto x = Tensor::FromVector(values, Dims{2, 5, width})->RequiresGrad();
            const auto y = std::make_shared<autograd::MaxPool2d>(2)->Apply({x})[0];
            ASSERT_EQ(y->Dims(), (Dims{2, 2, width / 2}));
            Floats weights, grad(values.size());
            for (int64_t i = 0; i < y->NumElements(); ++i) {
                const int64_t row = i / (width / 2), corner = (row / 2 * 5 + row % 2 * 2) * width + i % (width / 2) * 2;
                int64_t best = corner;
                for (const int64_t at : {corner + 1, corner + width, corner + width + 1}) {
                    best = values[at] > values[best] || std::isnan(values[at]) ? at : best;
                }
                weights.push_back(static_cast<float>(i + 1));
                grad[static_cast<size_t>(best)] = weights.back();
                const float actual = y->ToVector<float>()[static_cast<size_t>(i)];
                ASSERT_TRUE(actual == values[best] || (std::isnan(actual) && std::isnan(values[best])))
                    << "width " << width << ", window " << i << ": " << actual;
            }
            y->Backward(Tensor::FromVector(weights, y->Dims()));
            ASSERT_EQ(x->grad()->ToVector<float>(), grad) << "width " << width;
        }
    });
}

TEST(MaxPool2d, AWindowOfPaddingOnlyHasNoPlace) {
    auto x = Tensor::Ones({1, 1, 1})->RequiresGrad();
    const auto y = MaxOf(x, {.kernel = 2, .stride = 1, .padding = 2, .dilation = 3});
    EXPECT_EQ(y->Dims(), (Dims{1, 2, 2}));
    EXPECT_EQ(y->ToVector<float>(), Floats(4, -kInf));
    y->Backward(Tensor::Ones({1, 2, 2}));
    EXPECT_EQ(x->grad()->ToVector<float>(), Floats{0});
}

// Both poolings by definition, window by window, in double.
std::vector<double> Reference(const std::vector<double> &x, const Dims &in, const Dims &out, const Pool2dOptions &o,
                              bool max) {
    std::vector<double> result;
    for (int64_t p = 0; p < out[0] * out[1]; ++p) {
        for (int64_t at = 0; at < out[2] * out[3]; ++at) {
            double best = -kInf, sum = 0;
            for (int64_t k = 0; k < o.kernel.height * o.kernel.width; ++k) {
                const int64_t row =
                    at / out[3] * o.stride.height - o.padding.height + k / o.kernel.width * o.dilation.height;
                const int64_t column =
                    at % out[3] * o.stride.width - o.padding.width + k % o.kernel.width * o.dilation.width;
                if (row >= 0 && row < in[2] && column >= 0 && column < in[3]) {
                    const double value = x[static_cast<size_t>((p * in[2] + row) * in[3] + column)];
                    best = std::max(best, value);
                    sum += value;
                }
            }
            result.push_back(max ? best : sum / static_cast<double>(o.kernel.height * o.kernel.width));
        }
    }
    return result;
}

// Checks both poolings in all types.
void CheckTypes() {
    const Dims in = {3, 5, 14, 37};
    const struct {
        Pool2dOptions options;
        Dims out;
    } kCases[] = {
        {{.kernel = 2, .stride = 2}, {3, 5, 7, 18}},
        {{.kernel = 3, .stride = 1, .padding = 1}, {3, 5, 14, 37}},
        {{.kernel = {2, 3}, .stride = {1, 3}, .padding = {1, 0}}, {3, 5, 15, 12}},
    };
    for (const DataType dtype : {DataType::kFLOAT64, DataType::kFLOAT32, DataType::kBFLOAT16, DataType::kFLOAT16}) {
        const auto x = NoiseTensor(in, 1)->To(dtype);
        const double tolerance = dtype == DataType::kFLOAT64   ? 1e-15
                                 : dtype == DataType::kFLOAT32 ? 1e-6
                                 : dtype == DataType::kFLOAT16 ? 0x1p-11
                                                               : 0x1p-8;
        for (const auto &c : kCases) {
            const auto max = MaxOf(x, c.options), avg = AvgOf(x, c.options);
            ASSERT_EQ(max->Dims(), c.out);
            ASSERT_EQ(avg->Dims(), c.out);
            EXPECT_EQ(max->Dtype(), dtype);
            EXPECT_EQ(max->ToVector<double>(), Reference(x->ToVector<double>(), in, c.out, c.options, true));
            const auto expected = Reference(x->ToVector<double>(), in, c.out, c.options, false);
            const auto actual = avg->ToVector<double>();
            for (size_t i = 0; i < expected.size(); ++i) {
                ASSERT_NEAR(actual[i], expected[i], tolerance);
            }
        }
    }
}

TEST(Pool2d, FollowsTheDefinitionForEveryTypeAndInstructionSet) {
    test::ForEachInstructionSet(CheckTypes);
}

TEST(AvgPool2d, GivesPyTorchsValues) {
    const auto expect = [](const Pool2dOptions &o, const Dims &dims, const Floats &values) {
        const auto y = AvgOf(Counting(), o);
        ASSERT_EQ(y->Dims(), dims);
        const auto actual = y->ToVector<float>();
        for (size_t i = 0; i < values.size(); ++i) {
            EXPECT_NEAR(actual[i], values[i], 1e-5) << "at " << i;
        }
    };
    expect({.kernel = 3, .stride = 2, .padding = 1}, {1, 3, 3},
           {1.777778F, 3.666667F, 3.111111F, 7.666667F, 13, 9.666667F, 8.444445F, 13.666667F, 9.777778F});
    expect({.kernel = 3, .stride = 2, .padding = 1, .count_include_pad = false}, {1, 3, 3},
           {4, 5.5F, 7, 11.5F, 13, 14.5F, 19, 20.5F, 22});
    expect({.kernel = 2, .stride = 2, .ceil_mode = true}, {1, 3, 3}, {4, 6, 7.5F, 14, 16, 17.5F, 21.5F, 23.5F, 25});
    expect({.kernel = 2, .stride = 3, .padding = 1, .ceil_mode = true}, {1, 2, 2}, {0.25F, 1.75F, 6.75F, 16});
    expect({.kernel = 2, .stride = 3, .padding = 1, .ceil_mode = true, .count_include_pad = false}, {1, 2, 2},
           {1, 3.5F, 13.5F, 16});
    expect({.kernel = {1, 3}, .stride = {2, 1}, .padding = {0, 1}}, {1, 3, 5},
           {1, 2, 3, 4, 3, 7.666667F, 12, 13, 14, 9.666667F, 14.333333F, 22, 23, 24, 16.333333F});
}

TEST(Pool2d, HasDerivativesOfBothOrders) {
    const Pool2dOptions kOptions[] = {
        {.kernel = 2, .stride = 2},
        {.kernel = 3, .stride = 1, .padding = 1},
        {.kernel = {3, 2}, .stride = {2, 3}, .padding = {1, 0}, .ceil_mode = true, .count_include_pad = false},
    };
    for (const auto &o : kOptions) {
        for (const Dims &dims : {Dims{2, 2, 6, 5}, Dims{2, 5, 7}}) {
            const auto x = NoiseTensor(dims, 1);
            ExpectDerivatives([&](const TensorList &in) { return MaxOf(in[0], o); }, {x});
            ExpectDerivatives([&](const TensorList &in) { return AvgOf(in[0], o); }, {x});
        }
    }
    // The third order of a linear operator, through the gathering function.
    const auto indices = Tensor::FromVector<int32_t>({5, 0, -1, 5}, Dims{1, 2, 2});
    ExpectDerivatives(
        [&](const TensorList &in) { return std::make_shared<autograd::MaxPool2dGather>(indices)->Apply(in)[0]; },
        {NoiseTensor({1, 2, 3}, 2)});
}

TEST(Pool2d, TakesAnyStridesAndAnEmptyBatch) {
    const auto x = NoiseTensor({2, 3, 6, 8}, 1);
    const auto turned = x->Transpose(1, 3)->Contiguous()->Transpose(1, 3);
    const Pool2dOptions o = {.kernel = 2, .stride = 2};
    EXPECT_EQ(MaxOf(turned, o)->ToVector<double>(), MaxOf(x, o)->ToVector<double>());
    EXPECT_EQ(AvgOf(turned, o)->ToVector<double>(), AvgOf(x, o)->ToVector<double>());

    auto empty = Tensor::Ones({0, 3, 6, 8})->RequiresGrad();
    for (const auto &y : {MaxOf(empty, o), AvgOf(empty, o)}) {
        EXPECT_EQ(y->Dims(), (Dims{0, 3, 3, 4}));
        empty->ZeroGrad();
        y->Backward(Tensor::Ones({0, 3, 3, 4}));
        EXPECT_EQ(empty->grad()->Dims(), (Dims{0, 3, 6, 8}));
    }
    // Each element of the mean shares the gradient; an expanded one is read right.
    auto leaf = Tensor::Ones({1, 4, 4})->RequiresGrad();
    AvgOf(leaf, o)->Sum()->Backward();
    EXPECT_EQ(leaf->grad()->ToVector<float>(), Floats(16, 0.25F));
}

TEST(Pool2d, DoesNotDependOnTheNumberOfThreads) {
    const int before = GetNumThreads();
    std::vector<std::vector<float>> results;
    for (const int threads : {1, 2, 3}) {
        SetNumThreads(threads);
        Floats all;
        for (const auto &pool : {MaxOf, AvgOf}) {
            auto x = NoiseTensor({16, 8, 24, 24}, 1)->To(DataType::kFLOAT32)->Detach()->RequiresGrad();
            const auto y = pool(x, {.kernel = 3, .stride = 2, .padding = 1});
            y->Backward(y->Detach());
            for (const auto &tensor : {y->Detach(), x->grad()}) {
                const auto values = tensor->ToVector<float>();
                all.insert(all.end(), values.begin(), values.end());
            }
        }
        results.push_back(all);
        EXPECT_EQ(results.front(), all) << threads << " threads";
    }
    SetNumThreads(before);
}

TEST(Pool2d, SaysWhatDoesNotFit) {
    const auto x = Tensor::Ones({2, 3, 4, 5});
    ExpectError<ShapeError>(
        [&] {
            MaxOf(x, {.kernel = {5, 2}});
        },
        "MaxPool2d: a window of (5, 2) doesn't fit into (2, 3, 4, 5)");
    ExpectError<ShapeError>(
        [&] {
            AvgOf(Tensor::Ones({4, 5}), {.kernel = 2});
        },
        "AvgPool2d: expected an input (N, C, H, W) or (C, H, W), got (4, 5)");
    ExpectError<ValueError>([&] { MaxOf(x, {.kernel = 2, .padding = 2}); },
                            "MaxPool2d: expected a padding of at most half of the window (2, 2), got (2, 2)");
    ExpectError<ValueError>(
        [&] {
            AvgOf(x, {.kernel = 2, .stride = {1, 0}});
        },
        "AvgPool2d: expected kernel, stride and dilation of at least 1, got kernel (2, 2), stride "
        "(1, 0) and dilation (1, 1)");
    ExpectError<DtypeError>([&] { MaxOf(x->To(DataType::kINT64), {.kernel = 2}); },
                            "MaxPool2d: expected floating-point tensors, got int64");
    ExpectError<ShapeError>(
        [&] {
            std::make_shared<autograd::AvgPool2dBackward>(Pool2dOptions{.kernel = 2, .stride = 2}, x->Dims())
                ->Apply({Tensor::Ones({2, 3, 2, 3})});
        },
        "AvgPool2dBackward: expected a grad_output (2, 3, 2, 2) for (2, 3, 4, 5), got (2, 3, 2, 3)");
}

}  // namespace
}  // namespace infini_train
