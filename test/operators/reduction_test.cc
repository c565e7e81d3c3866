#include "infini_train/include/autograd/reduction.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/sum_to.h"
#include "test/operators/near.h"
#include "test/support/instruction_sets.h"

namespace infini_train::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// Folds the elements that differ only in the reduced dimensions, one after the other.
std::vector<double> Fold(const TensorPtr &x, const std::vector<int64_t> &reduced,
                         const std::function<double(double, double)> &f) {
    const auto values = x->ToVector<double>();
    const auto &dims = x->Dims();
    std::vector<int64_t> kept = dims;
    for (const int64_t dim : reduced) {
        kept[static_cast<size_t>(dim)] = 1;
    }
    const int64_t outputs = std::accumulate(kept.begin(), kept.end(), int64_t{1}, std::multiplies<>());
    std::vector<double> result(static_cast<size_t>(outputs));
    std::vector<bool> begun(result.size());
    for (size_t i = 0; i < values.size(); ++i) {
        int64_t rest = static_cast<int64_t>(i), position = 0, stride = 1;
        for (size_t d = dims.size(); d-- > 0;) {
            position += kept[d] == 1 ? 0 : rest % dims[d] * stride;
            stride *= kept[d];
            rest /= dims[d];
        }
        const auto at = static_cast<size_t>(position);
        result[at] = begun[at] ? f(result[at], values[i]) : values[i];
        begun[at] = true;
    }
    return result;
}

double Plus(double a, double b) {
    return a + b;
}
double Larger(double a, double b) {
    return std::max(a, b);
}
double Smaller(double a, double b) {
    return std::min(a, b);
}

// Small integers, exact in every type; bool becomes 0 and 1.
TensorPtr Counted(const std::vector<int64_t> &dims, DataType dtype) {
    const int64_t n = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
    std::vector<int64_t> values;
    for (int64_t i = 0; i < n; ++i) {
        values.push_back(i * 7 % 5);
    }
    return Tensor::FromVector<int64_t>(values, dims)->To(dtype);
}

void CheckAll(const TensorPtr &x, const std::vector<int64_t> &reduced, const std::string &what) {
    ExpectNear(x->Sum(reduced, true), Fold(x, reduced, Plus), 0, what + " sum");
    ExpectNear(x->Max(reduced, true), Fold(x, reduced, Larger), 0, what + " max");
    ExpectNear(x->Min(reduced, true), Fold(x, reduced, Smaller), 0, what + " min");
}

void EveryShapeDimensionAndLayout() {
    const std::vector<std::vector<int64_t>> shapes = {{1},        {5},          {17},         {3, 4},     {2, 33},
                                                      {33, 2},    {40, 3},      {3, 1, 5},    {4, 5, 6},  {2, 3, 4, 5},
                                                      {70, 9, 2}, {2, 1030, 3}, {1, 1, 2050}, {2, 70, 35}};
    for (const auto &dims : shapes) {
        const auto ndim = static_cast<int64_t>(dims.size());
        for (int64_t subset = 1; subset < (int64_t{1} << ndim); ++subset) {
            std::vector<int64_t> reduced;
            for (int64_t d = 0; d < ndim; ++d) {
                if ((subset >> d & 1) != 0) {
                    reduced.push_back(d);
                }
            }
            const std::string what = "ndim " + std::to_string(ndim) + " subset " + std::to_string(subset);
            CheckAll(Counted(dims, DataType::kFLOAT32), reduced, what);
            if (ndim < 2) {
                continue;
            }
            std::vector<int64_t> transposed = dims;
            std::swap(transposed[0], transposed.back());
            CheckAll(Counted(transposed, DataType::kFLOAT32)->Transpose(0, -1), reduced, what + " transposed");
            std::vector<int64_t> wider = dims;
            wider.back() = 2 * dims.back() + 1;
            CheckAll(Counted(wider, DataType::kFLOAT32)->Slice(-1, 1, 2 * dims.back() + 1, 2), reduced,
                     what + " sliced");
            std::vector<int64_t> flat = dims;
            flat[0] = 1;
            CheckAll(Counted(flat, DataType::kFLOAT32)->Expand(dims), reduced, what + " expanded");
        }
    }
}

TEST(Reduction, EveryShapeDimensionAndLayoutOnEveryInstructionSet) {
    ForEachInstructionSet(EveryShapeDimensionAndLayout);
}

void EveryType() {
    for (const DataType dtype : kAllDataTypes) {
        const auto x = Counted({3, 5, 20}, dtype);
        for (const std::vector<int64_t> &reduced : {std::vector<int64_t>{2}, {1}, {0, 2}, {0, 1, 2}}) {
            CheckAll(x, reduced, ToString(dtype));
        }
        EXPECT_EQ(x->Sum()->Dtype(), IsFloatingPoint(dtype) ? dtype : DataType::kINT64);
        EXPECT_EQ(x->Max()->Dtype(), dtype);
        EXPECT_EQ(x->Min()->Dtype(), dtype);
        EXPECT_EQ(x->Argmax()->Dtype(), DataType::kINT64);
        // 0, 2, 4, 1, 3, ...; as bool 0, 1, 1, 1, 1, ...
        EXPECT_EQ(x->Argmax()->Item<int64_t>(), dtype == DataType::kBOOL ? 1 : 2) << ToString(dtype);
        EXPECT_EQ(x->Argmin(2)->ToVector<int64_t>(), std::vector<int64_t>(15, 0)) << ToString(dtype);
    }
}

TEST(Reduction, EveryTypeOnEveryInstructionSet) {
    ForEachInstructionSet(EveryType);
}

TEST(Reduction, ExtremeIntegers) {
    constexpr uint64_t kBig = std::numeric_limits<uint64_t>::max();
    const auto big = Tensor::FromVector<uint64_t>({kBig - 1, 3, kBig, 0, kBig - 5, 7}, std::vector<int64_t>{2, 3});
    EXPECT_EQ(big->Max()->Item<uint64_t>(), kBig);
    EXPECT_EQ(big->Min(1)->ToVector<uint64_t>(), (std::vector<uint64_t>{3, 0}));
    EXPECT_EQ(big->Max(0)->ToVector<uint64_t>(), (std::vector<uint64_t>{kBig - 1, kBig - 5, kBig}));
    EXPECT_EQ(big->Argmax()->Item<int64_t>(), 2);
    EXPECT_EQ(big->Sum()->Item<int64_t>(), 1);  // -2 + 3 - 1 + 0 - 6 + 7, modulo 2^64
    constexpr int64_t kLow = std::numeric_limits<int64_t>::min();
    const auto low = Tensor::FromVector<int64_t>({kLow, std::numeric_limits<int64_t>::max(), kLow});
    EXPECT_EQ(low->Min()->Item<int64_t>(), kLow);
    EXPECT_EQ(low->Max()->Item<int64_t>(), std::numeric_limits<int64_t>::max());
    EXPECT_EQ(low->Sum()->Item<int64_t>(), std::numeric_limits<int64_t>::max());
}

TEST(Reduction, Dims) {
    const auto x = Counted({2, 3, 4}, DataType::kFLOAT32);
    EXPECT_EQ(x->Sum()->Dims(), (std::vector<int64_t>{}));
    EXPECT_EQ(x->Sum(std::vector<int64_t>{}, true)->Dims(), (std::vector<int64_t>{1, 1, 1}));
    EXPECT_EQ(x->Sum(1)->Dims(), (std::vector<int64_t>{2, 4}));
    EXPECT_EQ(x->Sum(-1, true)->Dims(), (std::vector<int64_t>{2, 3, 1}));
    EXPECT_EQ(x->Mean(std::vector<int64_t>{-1, 0}, false)->Dims(), (std::vector<int64_t>{3}));
    EXPECT_EQ(x->Argmax(1, true)->Dims(), (std::vector<int64_t>{2, 1, 4}));
    EXPECT_EQ(x->Argmax(std::nullopt, true)->Dims(), (std::vector<int64_t>{1, 1, 1}));
    const auto scalar = Tensor::FromScalar(3.5);
    EXPECT_EQ(scalar->Sum()->Item<float>(), 3.5F);
    EXPECT_EQ(scalar->Mean(0)->Item<float>(), 3.5F);
    EXPECT_EQ(scalar->Max(-1, true)->Item<float>(), 3.5F);
    EXPECT_EQ(scalar->Argmin(0)->Item<int64_t>(), 0);
}

TEST(Reduction, SumsOfManyElementsAreAccurate) {
    constexpr int64_t kCount = 10'000'000;
    auto x = Tensor::Empty({kCount});
    double exact = 0;
    uint32_t state = 1;
    for (int64_t i = 0; i < kCount; ++i) {
        state = state * 1664525U + 1013904223U;
        x->Data<float>()[i] = static_cast<float>(state) * 0x1p-32F;
        exact += static_cast<double>(x->Data<float>()[i]);
    }
    EXPECT_NEAR(x->Sum()->Item<double>() / exact, 1.0, 1.2e-7);
    EXPECT_NEAR(x->Mean()->Item<double>() / (exact / kCount), 1.0, 1.2e-7);
    // Down the columns, each of 250,000 elements.
    const auto columns = x->View({250'000, 40});
    const auto sums = columns->Sum(0)->ToVector<double>();
    const auto means = columns->Mean(0)->ToVector<double>();
    for (int64_t c = 0; c < 40; ++c) {
        double sum = 0;
        for (int64_t r = 0; r < 250'000; ++r) {
            sum += static_cast<double>(x->Data<float>()[r * 40 + c]);
        }
        EXPECT_NEAR(sums[static_cast<size_t>(c)] / sum, 1.0, 2e-7);
        EXPECT_NEAR(means[static_cast<size_t>(c)] / (sum / 250'000), 1.0, 2e-7);
    }
    // 16-bit elements add up beyond what the type itself could count to.
    EXPECT_EQ(Tensor::Ones({4096}, DataType::kBFLOAT16)->Sum()->Item<float>(), 4096.0F);
    EXPECT_EQ(Tensor::Ones({5000, 3}, DataType::kFLOAT16)->Mean(0)->ToVector<float>(), std::vector<float>(3, 1.0F));
}

void InfinitiesAndOverflow() {
    const auto x = Tensor::FromVector<float>({3e38F, 3e38F, -3e38F});
    EXPECT_TRUE(std::isinf(x->Sum()->Item<float>()) || x->Sum()->Item<float>() == 3e38F);
    ExpectNear(Tensor::FromVector<float>({1, INFINITY, 2})->Sum(), {kInf}, 0);
    ExpectNear(Tensor::FromVector<float>({1, INFINITY, -INFINITY})->Sum(), {kNan}, 0);
    auto many = Tensor::Ones({300'000});
    many->Data<float>()[200'000] = INFINITY;
    ExpectNear(many->Sum(), {kInf}, 0);
    ExpectNear(many->Mean(), {kInf}, 0);
}

TEST(Reduction, InfinitiesAndOverflowOnEveryInstructionSet) {
    ForEachInstructionSet(InfinitiesAndOverflow);
}

void NanIsTheExtreme() {
    for (const DataType dtype : {DataType::kFLOAT32, DataType::kFLOAT64, DataType::kBFLOAT16, DataType::kFLOAT16}) {
        for (const int64_t n : {1, 3, 8, 19, 64, 1500, 70'000}) {
            for (const int64_t at : {int64_t{0}, n / 2, n - 1}) {
                auto values = Noise(n, 1);
                values[static_cast<size_t>(at)] = kNan;
                const auto x = Tensor::FromVector<double>(values)->To(dtype);
                ExpectNear(x->Max(), {kNan}, 0);
                ExpectNear(x->Min(), {kNan}, 0);
                EXPECT_EQ(x->Argmax()->Item<int64_t>(), at);
                EXPECT_EQ(x->Argmin()->Item<int64_t>(), at);
                const auto column = x->View({n, 1})->Expand({n, 5});
                ExpectNear(column->Max(0), std::vector<double>(5, kNan), 0);
                ExpectNear(column->Min(0), std::vector<double>(5, kNan), 0);
            }
        }
    }
    const auto infinite = Tensor::FromVector<float>({-INFINITY, -INFINITY});
    ExpectNear(infinite->Max(), {-kInf}, 0);
    EXPECT_EQ(infinite->Argmax()->Item<int64_t>(), 0);
}

TEST(Reduction, NanIsTheExtremeOnEveryInstructionSet) {
    ForEachInstructionSet(NanIsTheExtreme);
}

TEST(Reduction, PositionsAreThoseOfTheFirst) {
    const auto x = Tensor::FromVector<float>({1, 5, 5, 2, -3, -3, 0, -3}, std::vector<int64_t>{2, 4});
    EXPECT_EQ(x->Argmax()->Item<int64_t>(), 1);
    EXPECT_EQ(x->Argmin()->Item<int64_t>(), 4);
    EXPECT_EQ(x->Argmax(1)->ToVector<int64_t>(), (std::vector<int64_t>{1, 2}));
    EXPECT_EQ(x->Argmin(0)->ToVector<int64_t>(), (std::vector<int64_t>{1, 1, 1, 1}));
    EXPECT_EQ(x->Transpose(0, 1)->Argmax()->Item<int64_t>(), 2);  // 1 -3 5 -3 5 0 2 -3
    EXPECT_EQ(x->Transpose(0, 1)->Argmax(0)->ToVector<int64_t>(), (std::vector<int64_t>{1, 2}));
    std::vector<float> late(5000, 1.0F);
    late[3000] = late[4000] = 2.0F;
    EXPECT_EQ(Tensor::FromVector<float>(late)->Argmax()->Item<int64_t>(), 3000);
}

TEST(Reduction, Nothing) {
    const auto x = Tensor::Empty({0, 3});
    EXPECT_EQ(x->Sum()->Item<float>(), 0.0F);
    ExpectNear(x->Sum(0), {0, 0, 0}, 0);
    EXPECT_EQ(x->Sum(1)->Dims(), (std::vector<int64_t>{0}));
    ExpectNear(x->Mean(), {kNan}, 0);
    ExpectNear(x->Mean(0), {kNan, kNan, kNan}, 0);
    EXPECT_EQ(x->Max(1)->Dims(), (std::vector<int64_t>{0}));
    EXPECT_EQ(Tensor::Empty({0}, DataType::kBOOL)->Sum()->Item<int64_t>(), 0);
    EXPECT_EQ(MessageOf<ShapeError>([&] { x->Max(0); }), "Max: expected at least one element, got dim 0 of (0, 3)");
    EXPECT_EQ(MessageOf<ShapeError>([&] { x->Min(); }), "Min: expected at least one element, got dim 0 of (0, 3)");
    EXPECT_EQ(MessageOf<ShapeError>([&] { x->Argmax(); }),
              "Argmax: expected at least one element, got dim 0 of (0, 3)");
}

TEST(Reduction, Errors) {
    const auto x = Counted({2, 3}, DataType::kINT32);
    EXPECT_EQ(MessageOf<DtypeError>([&] { x->Mean(); }), "Mean: expected a floating-point tensor, got int32");
    EXPECT_EQ(MessageOf<IndexError>([&] { x->Sum(2); }), "Sum: dim 2 is out of range for 2 dimensions");
    EXPECT_EQ(MessageOf<ValueError>([&] { x->Max(std::vector<int64_t>{1, -1}, true); }), "Max: dim 1 is given twice");
    MessageOf<ValueError>([&] { std::make_shared<autograd::Sum>()->Apply({x, x}); });
    MessageOf<ValueError>([&] { std::make_shared<autograd::Sum>()->Apply({nullptr}); });
}

TEST(Reduction, AnyNumberOfThreads) {
    const std::vector<std::vector<int64_t>> shapes = {
        {1'000'003}, {300'001, 7}, {3, 100'003}, {64, 512}, {8, 20'000, 5}};
    for (const auto &dims : shapes) {
        const auto x = NoiseTensor(dims, DataType::kFLOAT32);
        for (int64_t d = 0; d < x->NumDims(); ++d) {
            ExpectSameForAnyThreads([&] { return x->Sum(d); });
            ExpectSameForAnyThreads([&] { return x->Max(d); });
            ExpectSameForAnyThreads([&] { return x->Argmin(d); });
        }
        ExpectSameForAnyThreads([&] { return x->Mean(); });
    }
}

TEST(Reduction, GradientsOfSumAndMean) {
    const auto x = NoiseTensor({2, 3, 4}, DataType::kFLOAT64)->RequiresGrad();
    const auto weight = Tensor::FromVector<double>({1, 10, 100});
    x->Sum(std::vector<int64_t>{0, 2}, false)->Mul(weight)->Sum()->Backward();
    std::vector<double> expected;
    for (int i = 0; i < 24; ++i) {
        expected.push_back(std::pow(10, i / 4 % 3));
    }
    ExpectNear(x->grad(), expected, 0);
    x->ZeroGrad();
    x->Mean(std::vector<int64_t>{0, 2}, true)->Mul(weight->View({1, 3, 1}))->Sum()->Backward();
    std::transform(expected.begin(), expected.end(), expected.begin(), [](double g) { return g / 8; });
    ExpectNear(x->grad(), expected, 1e-15);

    const auto empty = Tensor::Empty({0, 3})->RequiresGrad();
    empty->Sum()->Backward();
    EXPECT_EQ(empty->grad()->Dims(), (std::vector<int64_t>{0, 3}));
    const auto scalar = Tensor::FromScalar(2.0)->RequiresGrad();
    scalar->Mean()->Backward();
    ExpectNear(scalar->grad(), {1}, 0);
}

TEST(Reduction, TiesShareTheGradient) {
    const auto x = Tensor::FromVector<float>({1, 5, 5, 2, 4, 4}, std::vector<int64_t>{2, 3})->RequiresGrad();
    x->Max(1)->Mul(Tensor::FromVector<float>({6, 8}))->Sum()->Backward();
    ExpectNear(x->grad(), {0, 3, 3, 0, 4, 4}, 0);
    x->ZeroGrad();
    x->Max()->Backward();
    ExpectNear(x->grad(), {0, 0.5, 0.5, 0, 0, 0}, 0);
    x->ZeroGrad();
    x->Min(0, true)->Sum()->Backward();
    ExpectNear(x->grad(), {1, 0, 0, 0, 1, 1}, 0);
    const auto half = Tensor::Ones({2, 2}, DataType::kBFLOAT16)->RequiresGrad();
    half->Min()->Backward();
    EXPECT_EQ(half->grad()->Dtype(), DataType::kBFLOAT16);
    ExpectNear(half->grad(), {0.25, 0.25, 0.25, 0.25}, 0);
}

TEST(Reduction, SecondDerivatives) {
    const auto x = NoiseTensor({2, 3, 4}, 6);
    ExpectSecondDerivative([](const TensorPtr &at) { return at->Square()->Sum(1); }, x);
    ExpectSecondDerivative([](const TensorPtr &at) { return at->Mean(std::vector<int64_t>{0, 2}, true)->Square(); }, x);
    ExpectSecondDerivative([](const TensorPtr &at) { return at->Max(1)->Square(); }, x);
    ExpectSecondDerivative([](const TensorPtr &at) { return at->Square()->Min(); }, x);
}

TEST(SumTo, UndoesBroadcasting) {
    const auto grad = Counted({2, 3, 4}, DataType::kFLOAT32);
    EXPECT_EQ(autograd::SumTo(grad, {2, 3, 4}), grad);
    ExpectNear(autograd::SumTo(grad, {}), Fold(grad, {0, 1, 2}, Plus), 0);
    ExpectNear(autograd::SumTo(grad, {4}), Fold(grad, {0, 1}, Plus), 0);
    ExpectNear(autograd::SumTo(grad, {1, 3, 1}), Fold(grad, {0, 2}, Plus), 0);
    EXPECT_EQ(autograd::SumTo(grad, {3, 1})->Dims(), (std::vector<int64_t>{3, 1}));
    EXPECT_EQ(autograd::SumTo(Tensor::Ones({1, 1, 5}), {5})->Dims(), (std::vector<int64_t>{5}));
    ExpectNear(autograd::SumTo(Tensor::Empty({0, 3}), {1, 3}), {0, 0, 0}, 0);
}

}  // namespace
}  // namespace infini_train::test
