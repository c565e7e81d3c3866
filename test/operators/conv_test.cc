#include "infini_train/include/autograd/conv.h"

#include <cmath>
#include <cstdint>
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

using autograd::Conv2dOptions;
using test::ExpectDerivatives;
using test::ExpectError;
using test::NoiseTensor;
using Dims = std::vector<int64_t>;

TensorPtr ConvOf(const TensorList &inputs, const Conv2dOptions &o = {}) {
    return std::make_shared<autograd::Conv2d>(o.stride, o.padding, o.dilation, o.groups)->Apply(inputs)[0];
}

struct Case {
    Dims input, weight;
    Conv2dOptions options;

    int64_t OutHeight() const { return Out(2, options.padding.height, options.dilation.height, options.stride.height); }
    int64_t OutWidth() const { return Out(3, options.padding.width, options.dilation.width, options.stride.width); }
    Dims Output() const { return {input[0], weight[0], OutHeight(), OutWidth()}; }

private:
    int64_t Out(size_t axis, int64_t padding, int64_t dilation, int64_t stride) const {
        return (input[axis] + 2 * padding - dilation * (weight[axis] - 1) - 1) / stride + 1;
    }
};

// Calls `use(output, input, weight)` with the flat positions of each product that a convolution adds up.
template <typename Use>
void ForEachProduct(const Case &c, Use use) {
    const auto &o = c.options;
    const int64_t height = c.OutHeight(), width = c.OutWidth();
    const int64_t group_in = c.weight[1], group_out = c.weight[0] / o.groups;
    int64_t out = 0;
    for (int64_t n = 0; n < c.input[0]; ++n) {
        for (int64_t k = 0; k < c.weight[0]; ++k) {
            for (int64_t at = 0; at < height * width; ++at, ++out) {
                for (int64_t tap = 0; tap < group_in * c.weight[2] * c.weight[3]; ++tap) {
                    const int64_t j = tap % c.weight[3], i = tap / c.weight[3] % c.weight[2];
                    const int64_t row = at / width * o.stride.height - o.padding.height + i * o.dilation.height;
                    const int64_t column = at % width * o.stride.width - o.padding.width + j * o.dilation.width;
                    if (row < 0 || row >= c.input[2] || column < 0 || column >= c.input[3]) {
                        continue;
                    }
                    const int64_t channel = k / group_out * group_in + tap / (c.weight[2] * c.weight[3]);
                    use(out, ((n * c.input[1] + channel) * c.input[2] + row) * c.input[3] + column,
                        k * group_in * c.weight[2] * c.weight[3] + tap);
                }
            }
        }
    }
}

void ExpectNear(const TensorPtr &actual, const Dims &dims, const std::vector<double> &expected, double tolerance,
                const char *what) {
    ASSERT_EQ(actual->Dims(), dims) << what;
    const auto values = actual->ToVector<double>();
    ASSERT_EQ(values.size(), expected.size());
    for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_NEAR(values[i], expected[i], tolerance * std::max(1.0, std::abs(expected[i]))) << what << " at " << i;
    }
}

// Runs a convolution with its gradients in `dtype` and compares all of them with the definition, in double.
void Check(const Case &c, DataType dtype, double tolerance) {
    const Dims out = c.Output();
    auto x = NoiseTensor(c.input, 1)->To(dtype)->Detach()->RequiresGrad();
    auto w = NoiseTensor(c.weight, 2)->To(dtype)->Detach()->RequiresGrad();
    auto b = NoiseTensor({c.weight[0]}, 3)->To(dtype)->Detach()->RequiresGrad();
    const auto g = NoiseTensor(out, 4)->To(dtype);
    const auto y = ConvOf({x, w, b}, c.options);
    y->Backward(g);

    const auto xs = x->ToVector<double>(), ws = w->ToVector<double>(), bs = b->ToVector<double>();
    const auto gs = g->ToVector<double>();
    std::vector<double> ys(gs.size()), gx(xs.size()), gw(ws.size()), gb(bs.size());
    const auto plane = static_cast<size_t>(out[2] * out[3]);
    for (size_t i = 0; i < gs.size(); ++i) {
        const size_t channel = i / plane % bs.size();
        ys[i] = bs[channel];
        gb[channel] += gs[i];
    }
    ForEachProduct(c, [&](int64_t o, int64_t i, int64_t k) {
        ys[o] += xs[i] * ws[k];
        gx[i] += gs[o] * ws[k];
        gw[k] += gs[o] * xs[i];
    });
    ExpectNear(y, out, ys, tolerance, "output");
    ExpectNear(x->grad(), c.input, gx, tolerance, "input's gradient");
    ExpectNear(w->grad(), c.weight, gw, tolerance, "weight's gradient");
    ExpectNear(b->grad(), {c.weight[0]}, gb, tolerance, "bias's gradient");
}

// Sizes around the vectors' and tiles' edges, and every option.
const Case kCases[] = {
    {{1, 1, 1, 1}, {1, 1, 1, 1}, {}},
    {{2, 3, 7, 5}, {4, 3, 3, 3}, {}},
    {{2, 1, 28, 28}, {6, 1, 5, 5}, {}},
    {{3, 6, 12, 12}, {16, 6, 5, 5}, {}},
    {{2, 3, 9, 17}, {7, 3, 3, 2}, {.padding = {1, 2}}},
    {{2, 2, 11, 19}, {5, 2, 3, 3}, {.stride = 2, .padding = 1}},
    {{1, 2, 13, 40}, {13, 2, 2, 3}, {.stride = {3, 2}, .padding = {0, 3}, .dilation = {2, 3}}},
    {{2, 4, 8, 8}, {4, 1, 3, 3}, {.padding = 1, .groups = 4}},
    {{2, 6, 6, 10}, {9, 2, 3, 1}, {.dilation = {1, 2}, .groups = 3}},
    {{2, 5, 6, 7}, {3, 5, 1, 1}, {}},
    {{2, 5, 6, 7}, {3, 5, 1, 1}, {.stride = 3}},
    {{1, 1, 4, 4}, {2, 1, 4, 4}, {.stride = 1, .padding = 3}},
    {{2, 3, 2, 33}, {12, 3, 2, 4}, {}},
};

TEST(Conv2d, FollowsTheDefinitionOnEveryInstructionSet) {
    test::ForEachInstructionSet([] {
        for (const Case &c : kCases) {
            Check(c, DataType::kFLOAT64, 1e-12);
            Check(c, DataType::kFLOAT32, 1e-5);
        }
    });
}

TEST(Conv2d, RoundsSixteenBitTypesOnce) {
    for (const Case &c : {kCases[1], kCases[5], kCases[8]}) {
        Check(c, DataType::kBFLOAT16, 0x1p-7);
        Check(c, DataType::kFLOAT16, 0x1p-10);
    }
    Check({{37, 1, 6, 6}, {2, 1, 3, 3}, {}}, DataType::kFLOAT16, 0x1p-9);  // in groups of images
}

TEST(Conv2d, LargeImagesAndManyChannels) {
    Check({{2, 5, 50, 90}, {10, 5, 3, 3}, {.padding = 1}}, DataType::kFLOAT32, 1e-4);
    Check({{1, 70, 9, 9}, {50, 70, 3, 3}, {.padding = 1}}, DataType::kFLOAT32, 1e-4);
    Check({{70, 2, 6, 6}, {3, 2, 3, 3}, {}}, DataType::kFLOAT32, 1e-4);
}

TEST(Conv2d, HasDerivativesOfBothOrders) {
    const Case cases[] = {
        {{2, 2, 4, 5}, {3, 2, 2, 3}, {}},
        {{1, 2, 5, 6}, {2, 2, 3, 2}, {.stride = {2, 1}, .padding = {1, 0}}},
        {{2, 4, 5, 5}, {4, 2, 2, 2}, {.stride = 2, .padding = 1, .dilation = 2, .groups = 2}},
    };
    for (const Case &c : cases) {
        const auto conv = [&](const TensorList &in) { return ConvOf(in, c.options); };
        ExpectDerivatives(conv, {NoiseTensor(c.input, 1), NoiseTensor(c.weight, 2)});
        ExpectDerivatives(conv, {NoiseTensor(c.input, 1), NoiseTensor(c.weight, 2), NoiseTensor({c.weight[0]}, 3)});
        const auto grad = NoiseTensor(c.Output(), 4);
        ExpectDerivatives(
            [&](const TensorList &in) {
                return std::make_shared<autograd::Conv2dBackwardInput>(c.options, c.input)->Apply(in)[0];
            },
            {grad, NoiseTensor(c.weight, 2)});
        ExpectDerivatives(
            [&](const TensorList &in) {
                return std::make_shared<autograd::Conv2dBackwardWeight>(c.options, c.weight)->Apply(in)[0];
            },
            {grad, NoiseTensor(c.input, 1)});
    }
}

TEST(Conv2d, TakesOneImageWithoutABatch) {
    auto x = NoiseTensor({2, 6, 6}, 1)->RequiresGrad(), w = NoiseTensor({3, 2, 3, 3}, 2)->RequiresGrad();
    auto b = NoiseTensor({3}, 3)->RequiresGrad();
    const auto y = ConvOf({x, w, b});
    EXPECT_EQ(y->Dims(), (Dims{3, 4, 4}));
    EXPECT_EQ(y->ToVector<double>(), ConvOf({x->Detach()->Unsqueeze(0), w, b})->ToVector<double>());
    ExpectDerivatives([](const TensorList &in) { return ConvOf(in); }, {x, w, b});
}

TEST(Conv2d, TakesAnyStridesAndExpandedGradients) {
    const auto x = NoiseTensor({2, 3, 5, 6}, 1), w = NoiseTensor({4, 3, 2, 2}, 2);
    const auto turned_x = x->Transpose(1, 3)->Contiguous()->Transpose(1, 3);
    auto turned_w = w->Transpose(0, 2)->Contiguous()->Transpose(0, 2)->Detach()->RequiresGrad();
    auto plain_w = w->Detach()->RequiresGrad();
    const auto y = ConvOf({turned_x, turned_w}), plain = ConvOf({x, plain_w});
    EXPECT_EQ(y->ToVector<double>(), plain->ToVector<double>());
    y->Sum()->Backward();
    plain->Backward(Tensor::Ones({2, 4, 4, 5}, DataType::kFLOAT64));
    EXPECT_EQ(turned_w->grad()->ToVector<double>(), plain_w->grad()->ToVector<double>());
}

TEST(Conv2d, AnEmptyBatchGivesNothingAndZeroGradients) {
    auto x = Tensor::Ones({0, 2, 5, 5})->RequiresGrad(), w = Tensor::Ones({3, 2, 3, 3})->RequiresGrad();
    auto b = Tensor::Ones({3})->RequiresGrad();
    const auto y = ConvOf({x, w, b});
    EXPECT_EQ(y->Dims(), (Dims{0, 3, 3, 3}));
    y->Backward(Tensor::Ones({0, 3, 3, 3}));
    EXPECT_EQ(x->grad()->Dims(), (Dims{0, 2, 5, 5}));
    EXPECT_EQ(w->grad()->ToVector<float>(), std::vector<float>(54, 0));
    EXPECT_EQ(b->grad()->ToVector<float>(), std::vector<float>(3, 0));
}

TEST(Conv2d, NaNReachesOnlyWhatSeesIt) {
    // One pixel that isn't a number, in a row shorter than a vector and in the part that a stride leaves out.
    auto values = std::vector<float>(25, 1);
    values[24] = std::nanf("");
    auto x = Tensor::FromVector(values, Dims{1, 1, 5, 5}), w = Tensor::Ones({1, 1, 2, 2})->RequiresGrad();
    const auto y = ConvOf({x, w}, {.stride = 2});
    EXPECT_EQ(y->ToVector<float>(), std::vector<float>(4, 4));
    y->Backward(Tensor::Ones({1, 1, 2, 2}));
    EXPECT_EQ(w->grad()->ToVector<float>(), std::vector<float>(4, 4));

    w->ZeroGrad();
    const auto full = ConvOf({x, w});
    EXPECT_TRUE(std::isnan(full->ToVector<float>()[15]));
    EXPECT_EQ(full->ToVector<float>()[14], 4);
    full->Backward(Tensor::Ones({1, 1, 4, 4}));
    const auto grad = w->grad()->ToVector<float>();
    EXPECT_EQ((std::vector<float>{grad[0], grad[1], grad[2]}), std::vector<float>(3, 16));
    EXPECT_TRUE(std::isnan(grad[3]));
}

TEST(Conv2d, DoesNotDependOnTheNumberOfThreads) {
    const int before = GetNumThreads();
    for (const Case &c : {Case{{21, 6, 14, 14}, {16, 6, 5, 5}, {}}, Case{{1, 24, 30, 30}, {32, 24, 3, 3}, {}}}) {
        std::vector<double> first;
        for (const int threads : {1, 2, 3, 5}) {
            SetNumThreads(threads);
            auto x = NoiseTensor(c.input, 1)->To(DataType::kFLOAT32)->Detach()->RequiresGrad();
            auto w = NoiseTensor(c.weight, 2)->To(DataType::kFLOAT32)->Detach()->RequiresGrad();
            auto b = NoiseTensor({c.weight[0]}, 3)->To(DataType::kFLOAT32)->Detach()->RequiresGrad();
            const auto y = ConvOf({x, w, b});
            y->Backward(NoiseTensor(c.Output(), 4)->To(DataType::kFLOAT32));
            std::vector<double> all;
            for (const auto &tensor : {y->Detach(), x->grad(), w->grad(), b->grad()}) {
                const auto values = tensor->ToVector<double>();
                all.insert(all.end(), values.begin(), values.end());
            }
            first = first.empty() ? all : first;
            EXPECT_EQ(first, all) << threads << " threads";
        }
    }
    SetNumThreads(before);
}

TEST(Conv2d, SaysWhatDoesNotMatch) {
    const auto x = Tensor::Ones({2, 3, 8, 8}), w = Tensor::Ones({4, 3, 3, 3});
    ExpectError<ShapeError>(
        [&] {
            ConvOf({x, Tensor::Ones({4, 2, 3, 3})});
        },
        "Conv2d: (2, 3, 8, 8) and (4, 2, 3, 3) don't match: 3 input and 4 output channels in 1 "
        "group of 2 input channels");
    ExpectError<ShapeError>(
        [&] {
            ConvOf({x, Tensor::Ones({4, 1, 3, 3})}, {.groups = 3});
        },
        "Conv2d: (2, 3, 8, 8) and (4, 1, 3, 3) don't match: 3 input and 4 output channels in 3 "
        "groups of 1 input channels");
    ExpectError<ShapeError>(
        [&] {
            ConvOf({x, Tensor::Ones({4, 3, 9, 3})});
        },
        "Conv2d: (2, 3, 8, 8) and (4, 3, 9, 3) don't match: expected a kernel that fits into the "
        "padded input, and channels");
    ExpectError<ShapeError>(
        [&] {
            ConvOf({Tensor::Ones({8, 8}), w});
        },
        "Conv2d: expected an input (N, C, H, W) or (C, H, W) and a weight (O, C / groups, kH, kW), "
        "got (8, 8) and (4, 3, 3, 3)");
    ExpectError<ShapeError>(
        [&] {
            ConvOf({x, w, Tensor::Ones({3})});
        },
        "Conv2d: expected a bias (4,) for a weight (4, 3, 3, 3), got (3,)");
    ExpectError<ValueError>(
        [&] {
            ConvOf({x, w}, {.stride = 0});
        },
        "Conv2d: expected stride, dilation and groups of at least 1 and padding of at least 0, got "
        "stride (0, 0), dilation (1, 1), 1 groups and padding (0, 0)");
    ExpectError<DtypeError>(
        [&] {
            ConvOf({x, w->To(DataType::kFLOAT64)});
        },
        "Conv2d: expected tensors of one data type, got float32 for input 0 and float64 for input "
        "1");
    ExpectError<ShapeError>(
        [&] {
            std::make_shared<autograd::Conv2dBackwardInput>(Conv2dOptions{}, x->Dims())
                ->Apply({Tensor::Ones({2, 4, 5, 5}), w});
        },
        "Conv2dBackwardInput: expected a grad_output (2, 4, 6, 6) for (2, 3, 8, 8) and (4, 3, 3, 3), got (2, 4, 5, 5)");
}

}  // namespace
}  // namespace infini_train
