#include "infini_train/include/nn/functional.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/tensor.h"

#include "test/support/tensors.h"

// That each function reaches its operator with the arguments in the right places; the operators' own tests go deeper.
namespace infini_train {
namespace {

namespace function = nn::function;
using test::Floats;
using test::Of;
using test::Thrown;
using test::Values;
using Dims = std::vector<int64_t>;

void ExpectNear(const TensorPtr &actual, const Floats &expected) {
    const auto values = Values(actual);
    ASSERT_EQ(values.size(), expected.size());
    for (size_t i = 0; i < values.size(); ++i) {
        EXPECT_NEAR(values[i], expected[i], 1e-6F * std::max(1.0F, std::abs(expected[i]))) << i;
    }
}

TEST(FunctionalTest, MakesTensors) {
    EXPECT_EQ(Values(function::Ones({2})), (Floats{1, 1}));
    const auto zeros = function::Zeros({1, 2}, DataType::kFLOAT64);
    EXPECT_EQ(zeros->Dims(), (Dims{1, 2}));
    EXPECT_EQ(zeros->Dtype(), DataType::kFLOAT64);
    EXPECT_EQ(Values(zeros), (Floats{0, 0}));
}

TEST(FunctionalTest, ElementByElement) {
    const auto x = Of({0.5F, 2.0F});
    const auto check = [&](const TensorPtr &actual, double (*expected)(double)) {
        ExpectNear(actual, {static_cast<float>(expected(0.5)), static_cast<float>(expected(2.0))});
    };
    check(function::Reciprocal(x), [](double v) { return 1 / v; });
    check(function::Sin(x), [](double v) { return std::sin(v); });
    check(function::Cos(x), [](double v) { return std::cos(v); });
    check(function::Tanh(x), [](double v) { return std::tanh(v); });
    check(function::Exp(x), [](double v) { return std::exp(v); });
    check(function::Log(x), [](double v) { return std::log(v); });
    check(function::Sqrt(x), [](double v) { return std::sqrt(v); });
    check(function::Rsqrt(x), [](double v) { return 1 / std::sqrt(v); });
    check(function::Pow(x, 3), [](double v) { return v * v * v; });
    check(function::Sigmoid(x), [](double v) { return 1 / (1 + std::exp(-v)); });
    check(function::Relu(x), [](double v) { return v; });
    check(function::Silu(x), [](double v) { return v / (1 + std::exp(-v)); });
    check(function::Gelu(x), [](double v) { return v * std::erfc(-v / std::sqrt(2.0)) / 2; });
    check(function::Gelu(x, true), [](double v) {
        return v / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (v + 0.044715 * v * v * v)));
    });
    EXPECT_EQ(Values(function::Relu(Of({-1, 1}))), (Floats{0, 1}));
    EXPECT_EQ(Values(function::Where(x->Gt(1), Of({1, 2}), Of({3, 4}))), (Floats{3, 2}));
}

TEST(FunctionalTest, Reduces) {
    const auto x = Of({1, 5, 2, 6, 3, 4}, {2, 3});
    EXPECT_EQ(Values(function::Sum(x)), (Floats{21}));
    EXPECT_EQ(Values(function::Sum(x, 0)), (Floats{7, 8, 6}));
    EXPECT_EQ(function::Sum(x, 0, true)->Dims(), (Dims{1, 3}));
    EXPECT_EQ(Values(function::Sum(x, Dims{0, 1}, false)), (Floats{21}));
    EXPECT_EQ(Values(function::Mean(x)), (Floats{3.5F}));
    EXPECT_EQ(Values(function::Mean(x, 0)), (Floats{3.5F, 4, 3}));
    EXPECT_EQ(function::Mean(x, Dims{0, 1}, true)->Dims(), (Dims{1, 1}));
    EXPECT_EQ(Values(function::Min(x)), (Floats{1}));
    EXPECT_EQ(Values(function::Min(x, 1)), (Floats{1, 3}));
    EXPECT_EQ(Values(function::Max(x)), (Floats{6}));
    EXPECT_EQ(Values(function::Max(x, -1)), (Floats{5, 6}));
    EXPECT_EQ(function::Max(x, -1, true)->Dims(), (Dims{2, 1}));
    ExpectNear(function::Softmax(Of({0, std::log(3.0F)})), {0.25F, 0.75F});
    ExpectNear(function::LogSoftmax(Of({0, std::log(3.0F)}, {2, 1}), 0), {std::log(0.25F), std::log(0.75F)});
}

TEST(FunctionalTest, CutsAndJoins) {
    const auto x = Of({1, 2, 3, 4, 5, 6, 7, 8, 9}, {3, 3});
    EXPECT_EQ(Values(function::Tril(x)), (Floats{1, 0, 0, 4, 5, 0, 7, 8, 9}));
    EXPECT_EQ(Values(function::Triu(x, 1)), (Floats{0, 2, 3, 0, 0, 6, 0, 0, 0}));
    EXPECT_EQ(Values(function::Slice(x, {0, 1}, {3, 3}, {2, 1})), (Floats{2, 3, 8, 9}));
    EXPECT_EQ(Values(function::Slice(x, 1, 0, 3, 2)), (Floats{1, 3, 4, 6, 7, 9}));
    EXPECT_EQ(Values(function::Stack({Of({1, 2}), Of({3, 4})}, 1)), (Floats{1, 3, 2, 4}));
    EXPECT_EQ(Values(function::Concat({Of({1, 2}), Of({3})})), (Floats{1, 2, 3}));
    EXPECT_EQ(function::Split(x, 2, 1)[1]->Dims(), (Dims{3, 1}));
    EXPECT_EQ(Values(function::MaskedFill(Of({1, 2}), Of({0, 1})->Gt(0), -5)), (Floats{1, -5}));
}

TEST(FunctionalTest, Layers) {
    const auto x = Of({1, 2, 3, 4}, {2, 2}), w = Of({1, 0, 2, 1}, {2, 2});
    EXPECT_EQ(Values(function::Matmul(x, w)), (Floats{5, 2, 11, 4}));
    EXPECT_EQ(Values(function::Linear(x, w)), (Floats{1, 4, 3, 10}));
    EXPECT_EQ(Values(function::Linear(x, w, Of({10, 20}))), (Floats{11, 24, 13, 30}));
    const auto image = Of({1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 1, 3, 3});
    EXPECT_EQ(Values(function::Conv2d(image, Of({1, 2}, {1, 1, 1, 2}), Of({100}), {2, 1})),
              (Floats{105, 108, 123, 126}));
    EXPECT_EQ(Values(function::MaxPool2d(image, 2, 1)), (Floats{5, 6, 8, 9}));
    EXPECT_EQ(Values(function::AvgPool2d(image, {1, 3})), (Floats{2, 5, 8}));
    EXPECT_EQ(Values(function::Embedding(Tensor::FromVector<int64_t>({1, 0}), w)), (Floats{2, 1, 1, 0}));
    ExpectNear(function::LayerNorm(x, {2}, nullptr, nullptr, 0), {-1, 1, -1, 1});
    ExpectNear(function::LayerNorm(x, {2}, Of({2, 3}), Of({10, 20}), 0), {8, 23, 8, 23});
    ExpectNear(function::LayerNorm(x, {2}, nullptr, Of({10, 20}), 0), {9, 21, 9, 21});
    EXPECT_EQ(function::Dropout(x, 0.5, /*training=*/false), x);
    Generator first(1), second(1);
    EXPECT_EQ(Values(function::Dropout(x, 0.5, true, &first)), Values(function::Dropout(x, 0.5, true, &second)));
}

TEST(FunctionalTest, Losses) {
    const auto logits = Of({0, std::log(3.0F), std::log(3.0F), 0}, {2, 2});
    const auto labels = Tensor::FromVector<int64_t>({1, 1});
    const float low = -std::log(0.75F), high = -std::log(0.25F);
    ExpectNear(function::CrossEntropy(logits, labels), {(low + high) / 2});
    ExpectNear(function::CrossEntropy(logits, labels, Reduction::kNone), {low, high});
    ExpectNear(function::CrossEntropy(logits, labels, Reduction::kSum, 1), {0});
    ExpectNear(function::CrossEntropy(logits, labels, Reduction::kMean, -100, 1.0), {(low + high) / 2});
    EXPECT_EQ(Values(function::MseLoss(Of({1, 2}), Of({3, 5}), Reduction::kSum)), (Floats{13}));
}

TEST(FunctionalTest, NullIsAnError) {
    const auto x = Of({1});
    const std::vector<std::function<void()>> calls = {
        [] { function::Relu(nullptr); },          [] { function::Sum(nullptr); },
        [] { function::Softmax(nullptr); },       [] { function::Tril(nullptr); },
        [&] { function::Matmul(x, nullptr); },    [&] { function::Linear(nullptr, x); },
        [] { function::Stack({nullptr}); },       [&] { function::Where(x, nullptr, x); },
        [] { function::Dropout(nullptr); },       [&] { function::MseLoss(nullptr, x); },
        [&] { function::Embedding(x, nullptr); }, [&] { function::MaskedFill(x, nullptr, 0); },
        [] { function::MaxPool2d(nullptr, 2); },  [] { function::LayerNorm(nullptr, {1}); },
        [] { function::Split(nullptr, 1); },      [&] { function::CrossEntropy(x, nullptr); }};
    for (size_t i = 0; i < calls.size(); ++i) {
        EXPECT_NE(Thrown<ValueError>(calls[i]), "") << i;
    }
}

}  // namespace
}  // namespace infini_train
