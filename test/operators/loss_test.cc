#include "infini_train/include/autograd/loss.h"

#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/core/allocator.h"
#include "infini_train/include/core/generator.h"
#include "infini_train/include/tensor.h"

#include "test/operators/near.h"
#include "test/support/instruction_sets.h"

namespace infini_train::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Options {
    int64_t ignore_index = -100;
    double smoothing = 0;
    Reduction reduction = Reduction::kMean;
};

TensorPtr Loss(const TensorPtr &logits, const TensorPtr &labels, const Options &options = {}) {
    return std::make_shared<autograd::CrossEntropy>(options.ignore_index, options.smoothing, options.reduction)
        ->Apply({logits, labels})[0];
}

struct Expected {
    std::vector<double> loss, gradient;
};

// Logits (n, classes, rest), as the definition says; the gradient is that of the loss, or of sum(weights * losses).
Expected Reference(const std::vector<double> &logits, const std::vector<int64_t> &labels, int64_t classes, int64_t rest,
                   const Options &options, const std::vector<double> &weights) {
    std::vector<double> losses(labels.size(), 0), gradient(logits.size(), 0);
    double counted = 0;
    for (size_t row = 0; row < labels.size(); ++row) {
        counted += labels[row] != options.ignore_index ? 1 : 0;
    }
    for (size_t row = 0; row < labels.size(); ++row) {
        if (labels[row] == options.ignore_index) {
            continue;
        }
        const auto r = static_cast<int64_t>(row);
        const auto at = [&](int64_t c) { return static_cast<size_t>((r / rest * classes + c) * rest + r % rest); };
        double max = -std::numeric_limits<double>::infinity(), sum = 0;
        for (int64_t c = 0; c < classes; ++c) {
            max = std::max(max, logits[at(c)]);
        }
        for (int64_t c = 0; c < classes; ++c) {
            sum += std::exp(logits[at(c)] - max);
        }
        for (int64_t c = 0; c < classes; ++c) {
            const double target =
                options.smoothing / static_cast<double>(classes) + (c == labels[row] ? 1 - options.smoothing : 0);
            const double log_p = logits[at(c)] - max - std::log(sum);
            losses[row] -= target * log_p;
            const double weight = options.reduction == Reduction::kMean   ? 1 / counted
                                  : options.reduction == Reduction::kNone ? weights[row]
                                                                          : 1;
            gradient[at(c)] = (std::exp(log_p) - target) * weight;
        }
    }
    if (options.reduction != Reduction::kNone) {
        const double total = std::accumulate(losses.begin(), losses.end(), 0.0);
        losses = {options.reduction == Reduction::kMean ? total / counted : total};
    }
    return {losses, gradient};
}

double Tolerance(DataType dtype) {
    switch (dtype) {
        case DataType::kFLOAT64:
            return 1e-13;
        case DataType::kFLOAT32:
            return 2e-6;
        case DataType::kFLOAT16:
            return 2e-3;
        default:
            return 1e-2;
    }
}

struct Shape {
    std::vector<int64_t> logits, labels;
};

void ValuesAndGradients() {
    const Shape shapes[] = {{{10}, {}},    {{4, 10}, {4}},      {{64, 3}, {64}},   {{3, 2500}, {3}},
                            {{2, 1}, {2}}, {{2, 5, 3}, {2, 3}}, {{40, 300}, {40}}, {{2, 3, 2, 4}, {2, 2, 4}}};
    for (const DataType dtype : {DataType::kFLOAT64, DataType::kFLOAT32, DataType::kBFLOAT16, DataType::kFLOAT16}) {
        for (const auto &shape : shapes) {
            for (const Reduction reduction : {Reduction::kMean, Reduction::kSum, Reduction::kNone}) {
                for (const double smoothing : {0.0, 0.1, 1.0}) {
                    const auto logits =
                        NoiseTensor(shape.logits, DataType::kFLOAT64)->Mul(5)->To(dtype)->RequiresGrad();
                    const int64_t classes = shape.logits[shape.logits.size() > 1 ? 1 : 0];
                    std::vector<int64_t> labels;
                    const int64_t rows = logits->NumElements() / classes;
                    for (int64_t i = 0; i < rows; ++i) {
                        labels.push_back(rows > 1 && i % 5 == 3 ? -100 : i * 7919 % classes);
                    }
                    int64_t rest = 1;
                    for (size_t i = 2; i < shape.logits.size(); ++i) {
                        rest *= shape.logits[i];
                    }
                    const Options options{-100, smoothing, reduction};
                    const auto weights = NoiseTensor(shape.labels, dtype, 8);
                    const auto expected = Reference(logits->ToVector<double>(), labels, classes, rest, options,
                                                    weights->ToVector<double>());
                    const auto loss = Loss(logits, Tensor::FromVector<int64_t>(labels, shape.labels), options);
                    const std::string what = ToString(dtype) + " classes " + std::to_string(classes) + " smoothing " +
                                             std::to_string(smoothing);
                    EXPECT_EQ(loss->Dtype(), dtype);
                    EXPECT_EQ(loss->Dims(), reduction == Reduction::kNone ? shape.labels : std::vector<int64_t>{});
                    ExpectNear(loss, expected.loss, Tolerance(dtype), what);
                    loss->Backward(reduction == Reduction::kNone ? weights : nullptr);
                    EXPECT_EQ(logits->grad()->Dtype(), dtype);
                    EXPECT_EQ(logits->grad()->Dims(), shape.logits);
                    ExpectNear(logits->grad(), expected.gradient, Tolerance(dtype), what + " gradient");
                }
            }
        }
    }
}

TEST(CrossEntropy, ValuesAndGradientsOnEveryInstructionSet) {
    ForEachInstructionSet(ValuesAndGradients);
}

TEST(CrossEntropy, SecondDerivatives) {
    for (const Reduction reduction : {Reduction::kMean, Reduction::kSum, Reduction::kNone}) {
        for (const auto &shape : {Shape{{4, 5}, {4}}, Shape{{2, 5, 3}, {2, 3}}, Shape{{5}, {}}}) {
            auto labels = Tensor::Full(shape.labels, 3, DataType::kINT32);
            if (labels->NumElements() > 1) {
                labels->Data<int32_t>()[1] = 1;  // ignored
            }
            const Options options{1, 0.2, reduction};
            ExpectSecondDerivative([&](const TensorPtr &at) { return Loss(at, labels, options); },
                                   NoiseTensor(shape.logits, 5));
        }
    }
}

TEST(CrossEntropy, EveryLabelType) {
    const auto logits = NoiseTensor({3, 4}, DataType::kFLOAT32);
    const auto labels = Tensor::FromVector<int64_t>({3, 0, 2});
    const double expected = Loss(logits, labels)->Item<double>();
    for (const DataType dtype : {DataType::kUINT8, DataType::kINT8, DataType::kUINT16, DataType::kINT16,
                                 DataType::kUINT32, DataType::kINT32, DataType::kUINT64}) {
        EXPECT_EQ(Loss(logits, labels->To(dtype))->Item<double>(), expected) << ToString(dtype);
    }
    EXPECT_EQ(Loss(logits, labels->To(DataType::kUINT8), {3})->Item<float>(), Loss(logits, labels, {3})->Item<float>());
}

TEST(CrossEntropy, NothingCounts) {
    const auto logits = NoiseTensor({2, 3}, DataType::kFLOAT32)->RequiresGrad();
    const auto labels = Tensor::Full({2}, -100, DataType::kINT64);
    const auto mean = Loss(logits, labels);
    ExpectNear(mean, {kNan}, 0);
    mean->Backward();
    ExpectNear(logits->grad(), std::vector<double>(6, 0), 0);
    ExpectNear(Loss(logits, labels, {-100, 0, Reduction::kSum}), {0}, 0);
    ExpectNear(Loss(logits, labels, {-100, 0, Reduction::kNone}), {0, 0}, 0);
    const auto empty = Tensor::Empty({0, 3});
    const auto no_labels = Tensor::Empty({0}, DataType::kINT64);
    ExpectNear(Loss(empty, no_labels), {kNan}, 0);
    ExpectNear(Loss(empty, no_labels, {-100, 0, Reduction::kSum}), {0}, 0);
}

void LargeAndInfiniteLogits() {
    constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
    const auto zero = Tensor::FromVector<int64_t>({0});
    const auto loss = [&](const std::vector<float> &row) {
        return Loss(Tensor::FromVector<float>(row, std::vector<int64_t>{1, static_cast<int64_t>(row.size())}), zero)
            ->Item<double>();
    };
    EXPECT_NEAR(loss({1000, 1000}), std::log(2), 1e-6);
    EXPECT_NEAR(loss({-1000, 0}), 1000, 1e-3);
    EXPECT_NEAR(loss({0, kMinusInf}), 0, 1e-7);
    EXPECT_EQ(loss({kMinusInf, 0}), std::numeric_limits<double>::infinity());
    EXPECT_TRUE(std::isnan(loss({kMinusInf, kMinusInf})));
    EXPECT_TRUE(std::isnan(loss({0, NAN})));
    EXPECT_TRUE(std::isnan(loss({NAN, kMinusInf})));
    // The largest element comes late, after parts of nothing but -inf and of small ones.
    std::vector<float> row(3000, kMinusInf);
    row[0] = 3;
    std::fill(row.begin() + 1500, row.begin() + 1600, -50.0F);
    row[2900] = 100;
    EXPECT_NEAR(loss(row), 97, 1e-5);
    row[2950] = NAN;
    EXPECT_TRUE(std::isnan(loss(row)));
}

TEST(CrossEntropy, LargeAndInfiniteLogitsOnEveryInstructionSet) {
    ForEachInstructionSet(LargeAndInfiniteLogits);
}

TEST(CrossEntropy, LayoutsOfLogitsLabelsAndGradients) {
    const auto logits = NoiseTensor({5, 4}, DataType::kFLOAT64)->Transpose(0, 1);
    const auto labels = Tensor::FromVector<int64_t>({4, 9, 0, 9, 1, 9, 2, 9})->Slice(0, 0, 8, 2);
    const auto leaf = logits->Detach()->RequiresGrad();
    const Options options{-100, 0, Reduction::kNone};
    const auto expected = Reference(logits->ToVector<double>(), {4, 0, 1, 2}, 5, 1, options, {1, 1, 1, 1});
    const auto loss = Loss(leaf, labels, options);
    ExpectNear(loss, expected.loss, 1e-13);
    loss->Sum()->Backward();  // an expanded gradient
    ExpectNear(leaf->grad(), expected.gradient, 1e-13);
}

// The gradient is computed in the memory of the logits where nobody can see it: it is the same, and where somebody can,
// the logits stay.
TEST(CrossEntropy, WritesOverLogitsThatNobodyElseHolds) {
    constexpr int64_t kRows = 64;
    constexpr int64_t kClasses = 4096;
    constexpr size_t kBytes = kRows * kClasses * sizeof(float);
    ManualSeed(3);
    const auto x = Tensor::Randn({kRows, kClasses})->RequiresGrad();
    const auto labels = Tensor::RandInt(0, kClasses, {kRows});
    const auto expected_logits = x->Mul(2)->ToVector<float>();
    Allocator &allocator = GetAllocator(Device());
    struct Run {
        TensorPtr grad;
        size_t peak;  // above what was there before
    };
    // `keep` is given the logits and what holds them until the pass is over.
    const auto run = [&](const std::function<void(const TensorPtr &, const TensorPtr &)> &keep, bool retain_graph) {
        x->ZeroGrad();
        TensorPtr loss;
        {
            const auto logits = x->Mul(2);
            loss = Loss(logits, labels);
            keep(logits, loss);
        }
        const size_t before = allocator.Stats().live;
        allocator.ResetPeak();
        loss->Backward(nullptr, retain_graph);
        return Run{x->grad(), allocator.Stats().peak - before};
    };
    TensorPtr kept;
    const Run alone = run([](const TensorPtr &, const TensorPtr &) {}, false);
    const Run retained = run([](const TensorPtr &, const TensorPtr &) {}, true);
    const Run held = run([&](const TensorPtr &logits, const TensorPtr &) { kept = logits; }, false);
    EXPECT_EQ(kept->ToVector<float>(), expected_logits);
    const Run viewed =
        run([&](const TensorPtr &logits, const TensorPtr &) { kept = logits->Detach()->View({-1}); }, false);
    EXPECT_EQ(kept->ToVector<float>(), expected_logits);
    kept = nullptr;
    for (const Run *other : {&retained, &held, &viewed}) {
        EXPECT_EQ(alone.grad->ToVector<float>(), other->grad->ToVector<float>());
        EXPECT_GT(other->peak, kBytes + kBytes / 2);
    }
    EXPECT_LT(alone.peak, kBytes + kBytes / 2);

    // A hook that throws leaves a pass that can be run again.
    x->ZeroGrad();
    const auto loss = Loss(x->Mul(2), labels);
    const auto handle = loss->grad_fn()->RegisterBackwardPostHook(
        [](autograd::Function *, const TensorList &, const TensorList &) { throw std::runtime_error("once"); });
    EXPECT_THROW(loss->Backward(), std::runtime_error);
    handle->Remove();
    loss->Backward();
    EXPECT_EQ(alone.grad->ToVector<float>(), x->grad()->ToVector<float>());
}

TEST(CrossEntropy, Errors) {
    const auto logits = Tensor::Zeros({3, 10});
    const auto labels = Tensor::FromVector<int64_t>({1, 10, -1});
    EXPECT_EQ(MessageOf<IndexError>([&] { Loss(logits, labels); }),
              "CrossEntropy: label 10 at position 1 is out of range for 10 classes");
    EXPECT_EQ(MessageOf<IndexError>([&] { Loss(logits, labels, {10}); }),
              "CrossEntropy: label -1 at position 2 is out of range for 10 classes");
    EXPECT_EQ(MessageOf<ShapeError>([&] { Loss(logits, Tensor::Zeros({4}, DataType::kINT64)); }),
              "CrossEntropy: (3, 10) and (4,) don't match: expected labels (3,)");
    EXPECT_EQ(MessageOf<DtypeError>([&] { Loss(logits, Tensor::Zeros({3})); }),
              "CrossEntropy: expected floating-point logits and integer labels, got float32 and float32");
    EXPECT_EQ(MessageOf<ValueError>([&] {
                  Loss(logits, labels, {-100, 1.5});
              }),
              "CrossEntropy: expected a label_smoothing in [0, 1], got 1.5");
    MessageOf<ShapeError>([&] { Loss(Tensor::FromScalar(1.0), Tensor::FromScalar(0, DataType::kINT64)); });
    MessageOf<ValueError>([&] { std::make_shared<autograd::CrossEntropy>()->Apply({logits}); });
    MessageOf<ValueError>([&] { Loss(logits, nullptr); });
}

TEST(CrossEntropy, AnyNumberOfThreads) {
    const auto logits = NoiseTensor({203, 997}, DataType::kFLOAT32);
    std::vector<int64_t> values(203);
    std::iota(values.begin(), values.end(), 0);
    const auto labels = Tensor::FromVector<int64_t>(values);
    ExpectSameForAnyThreads([&] { return Loss(logits, labels); });
    ExpectSameForAnyThreads([&] {
        const auto leaf = logits->Detach()->RequiresGrad();
        Loss(leaf, labels)->Backward();
        return leaf->grad();
    });
}

TEST(MseLoss, ValuesAndGradients) {
    const auto x = Tensor::FromVector<float>({1, 2, 3, 4}, std::vector<int64_t>{2, 2})->RequiresGrad();
    const auto target = Tensor::FromVector<float>({1, 0, 6, 8}, std::vector<int64_t>{2, 2});
    ExpectNear(autograd::MseLoss(x, target, Reduction::kNone), {0, 4, 9, 16}, 0);
    ExpectNear(autograd::MseLoss(x, target, Reduction::kSum), {29}, 0);
    const auto loss = autograd::MseLoss(x, target);
    ExpectNear(loss, {7.25}, 0);
    loss->Backward();
    ExpectNear(x->grad(), {0, 1, -1.5, -2}, 0);
    EXPECT_EQ(MessageOf<ShapeError>([&] { autograd::MseLoss(x, Tensor::Zeros({2})); }),
              "MseLoss: (2, 2) and (2,) don't match");
}

}  // namespace
}  // namespace infini_train::test
