#include "infini_train/include/autograd/normalization.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/tensor.h"

#include "test/operators/near.h"
#include "test/support/instruction_sets.h"

namespace infini_train::test {
namespace {

constexpr double kEps = 1e-5;

TensorPtr Normalize(const TensorPtr &x, const TensorPtr &weight = nullptr, const TensorPtr &bias = nullptr,
                    const std::vector<int64_t> &shape = {}) {
    return std::make_shared<autograd::LayerNorm>(kEps, shape)->Apply({x, weight, bias})[0];
}

struct Expected {
    std::vector<double> y, dx, dweight, dbias;
};

// Row by row, as the definition says; the gradients are those of sum(g * y).
Expected Reference(const TensorPtr &x, int64_t n, const TensorPtr &weight, const TensorPtr &bias,
                   const TensorPtr &grad) {
    const auto values = x->ToVector<double>();
    const auto g = grad->ToVector<double>();
    const auto size = static_cast<size_t>(n);
    const auto w = weight != nullptr ? weight->ToVector<double>() : std::vector<double>(size, 1);
    const auto b = bias != nullptr ? bias->ToVector<double>() : std::vector<double>(size, 0);
    Expected result{std::vector<double>(values.size()), std::vector<double>(values.size()), std::vector<double>(size),
                    std::vector<double>(size)};
    for (size_t row = 0; row < values.size(); row += size) {
        double mean = 0, variance = 0;
        for (size_t i = 0; i < size; ++i) {
            mean += values[row + i] / static_cast<double>(n);
        }
        for (size_t i = 0; i < size; ++i) {
            variance += std::pow(values[row + i] - mean, 2) / static_cast<double>(n);
        }
        const double rstd = 1 / std::sqrt(variance + kEps);
        double average = 0, along = 0;
        for (size_t i = 0; i < size; ++i) {
            const double xhat = (values[row + i] - mean) * rstd;
            result.y[row + i] = xhat * w[i] + b[i];
            result.dweight[i] += g[row + i] * xhat;
            result.dbias[i] += g[row + i];
            average += g[row + i] * w[i] / static_cast<double>(n);
            along += g[row + i] * w[i] * xhat / static_cast<double>(n);
        }
        for (size_t i = 0; i < size; ++i) {
            const double xhat = (values[row + i] - mean) * rstd;
            result.dx[row + i] = rstd * (g[row + i] * w[i] - average - xhat * along);
        }
    }
    return result;
}

double Tolerance(DataType dtype) {
    switch (dtype) {
        case DataType::kFLOAT64:
            return 1e-12;
        case DataType::kFLOAT32:
            return 1e-5;
        case DataType::kFLOAT16:
            return 5e-3;
        default:
            return 4e-2;
    }
}

void ValuesAndGradients() {
    const std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>> cases = {
        {{3, 5}, {5}},       {{2, 3, 8}, {8}},       {{4, 768}, {768}}, {{200, 17}, {17}},  {{7}, {7}},
        {{2, 3, 4}, {3, 4}}, {{2, 3, 4}, {2, 3, 4}}, {{5, 1}, {1}},     {{2, 1500}, {1500}}};
    for (const DataType dtype : {DataType::kFLOAT64, DataType::kFLOAT32, DataType::kBFLOAT16, DataType::kFLOAT16}) {
        for (const auto &[dims, shape] : cases) {
            for (const int affine : {0, 1, 2, 3}) {
                const auto x = NoiseTensor(dims, dtype)->RequiresGrad();
                const auto grad = NoiseTensor(dims, dtype, 2);
                const auto weight = (affine & 1) != 0 ? NoiseTensor(shape, dtype, 3)->RequiresGrad() : nullptr;
                const auto bias = (affine & 2) != 0 ? NoiseTensor(shape, dtype, 4)->RequiresGrad() : nullptr;
                int64_t n = 1;
                for (const int64_t dim : shape) {
                    n *= dim;
                }
                const auto expected = Reference(x, n, weight, bias, grad);
                // Of one element nothing is left, and its rounding error is large.
                const double tolerance = Tolerance(dtype) * (n == 1 ? 100 : 1);
                const std::string what =
                    ToString(dtype) + " n " + std::to_string(n) + " affine " + std::to_string(affine);
                const auto y = Normalize(x, weight, bias, shape);
                EXPECT_EQ(y->Dtype(), dtype);
                EXPECT_EQ(y->Dims(), dims);
                ExpectNear(y, expected.y, tolerance, what + " y");
                y->Backward(grad);
                ExpectNear(x->grad(), expected.dx, tolerance, what + " dx");
                if (weight != nullptr) {
                    EXPECT_EQ(weight->grad()->Dims(), shape);
                    ExpectNear(weight->grad(), expected.dweight, tolerance, what + " dweight");
                }
                if (bias != nullptr) {
                    ExpectNear(bias->grad(), expected.dbias, tolerance, what + " dbias");
                }
            }
        }
    }
}

TEST(LayerNorm, ValuesAndGradientsOnEveryInstructionSet) {
    ForEachInstructionSet(ValuesAndGradients);
}

TEST(LayerNorm, BothWaysToTheGradientAgree) {
    for (const DataType dtype : {DataType::kFLOAT64, DataType::kBFLOAT16}) {
        const auto x = NoiseTensor({3, 2, 6}, dtype)->RequiresGrad();
        const auto weight = NoiseTensor({2, 6}, dtype, 3)->RequiresGrad();
        const auto bias = NoiseTensor({2, 6}, dtype, 4)->RequiresGrad();
        const auto grad = NoiseTensor({3, 2, 6}, dtype, 2);
        Normalize(x, weight, bias)->Backward(grad);
        const auto dx = x->grad()->ToVector<double>();
        const auto dweight = weight->grad()->ToVector<double>();
        const auto dbias = bias->grad()->ToVector<double>();
        for (const auto &leaf : {x, weight, bias}) {
            leaf->ZeroGrad();
        }
        Normalize(x, weight, bias)->Backward(grad, false, /*create_graph=*/true);
        const double tolerance = dtype == DataType::kFLOAT64 ? 1e-13 : 1e-2;
        EXPECT_NE(x->grad()->grad_fn(), nullptr);
        EXPECT_EQ(x->grad()->Dtype(), dtype);
        ExpectNear(x->grad(), dx, tolerance);
        ExpectNear(weight->grad(), dweight, tolerance);
        ExpectNear(bias->grad(), dbias, tolerance);
        for (const auto &leaf : {x, weight, bias}) {
            leaf->ZeroGrad();  // a recorded gradient holds its leaf, which holds it
        }
    }
}

TEST(LayerNorm, SecondDerivatives) {
    const auto weight = NoiseTensor({5}, 3);
    const auto bias = NoiseTensor({5}, 4);
    const auto x = NoiseTensor({3, 5}, 5);
    ExpectSecondDerivative([&](const TensorPtr &at) { return Normalize(at, weight, bias); }, x, 1e-6);
    ExpectSecondDerivative([&](const TensorPtr &at) { return Normalize(at); }, x, 1e-6);
    // With weight and bias in the place of x, squared so that there is a second derivative.
    ExpectSecondDerivative([&](const TensorPtr &at) { return Normalize(x, at, bias)->Square(); }, weight, 1e-6);
    ExpectSecondDerivative([&](const TensorPtr &at) { return Normalize(x, weight, at)->Square(); }, bias, 1e-6);
}

TEST(LayerNorm, ALargeMeanCostsNoPrecision) {
    // 1000.5, 1001, 1001.5, ...: the variance is (n^2 - 1) / 48 whatever the mean.
    std::vector<float> values;
    for (int i = 0; i < 64; ++i) {
        values.push_back(1000.5F + 0.5F * static_cast<float>(i));
    }
    const auto y = Normalize(Tensor::FromVector<float>(values))->ToVector<double>();
    const double deviation = std::sqrt((64.0 * 64 - 1) / 48 + kEps);
    for (int i = 0; i < 64; ++i) {
        EXPECT_NEAR(y[static_cast<size_t>(i)], (i - 31.5) / 2 / deviation, 1e-6);
    }
    const auto constant = Normalize(Tensor::Full({2, 9}, 123.25));
    ExpectNear(constant, std::vector<double>(18, 0), 0);
}

TEST(LayerNorm, OnlyWantedGradients) {
    const auto x = NoiseTensor({3, 4}, DataType::kFLOAT32);
    const auto weight = Tensor::Ones({4})->RequiresGrad();
    Normalize(x, weight)->Sum()->Backward();
    EXPECT_EQ(x->grad(), nullptr);
    ExpectNear(weight->grad(), Reference(x, 4, weight, nullptr, Tensor::Ones({3, 4})).dweight, 1e-5);
    const auto bias = Tensor::Zeros({4})->RequiresGrad();
    Normalize(x, nullptr, bias)->Sum()->Backward();
    ExpectNear(bias->grad(), {3, 3, 3, 3}, 0);
}

TEST(LayerNorm, LayoutsAndEmptyTensors) {
    const auto x = NoiseTensor({4, 6}, DataType::kFLOAT64)->Transpose(0, 1);
    ExpectNear(Normalize(x), Reference(x, 4, nullptr, nullptr, x).y, 1e-12);
    const auto empty = Tensor::Empty({0, 4})->RequiresGrad();
    const auto weight = Tensor::Ones({4})->RequiresGrad();
    const auto y = Normalize(empty, weight);
    EXPECT_EQ(y->Dims(), (std::vector<int64_t>{0, 4}));
    y->Sum()->Backward();
    ExpectNear(weight->grad(), {0, 0, 0, 0}, 0);
}

TEST(LayerNorm, Errors) {
    const auto x = Tensor::Zeros({2, 3});
    EXPECT_EQ(MessageOf<ShapeError>([&] { Normalize(x, Tensor::Ones({4})); }),
              "LayerNorm: expected x to end in (4,), got (2, 3)");
    EXPECT_EQ(MessageOf<ShapeError>([&] { Normalize(x, Tensor::Ones({3}), Tensor::Ones({2})); }),
              "LayerNorm: expected a bias (3,), got (2,)");
    EXPECT_EQ(MessageOf<DtypeError>([&] { Normalize(x, Tensor::Ones({3}, DataType::kFLOAT64)); }),
              "LayerNorm: expected a weight of float32, got float64");
    EXPECT_EQ(MessageOf<DtypeError>([&] { Normalize(Tensor::Zeros({3}, DataType::kINT32)); }),
              "LayerNorm: expected a floating-point tensor, got int32");
    MessageOf<ShapeError>([&] { Normalize(Tensor::FromScalar(1.0)); });
    MessageOf<ValueError>([&] { std::make_shared<autograd::LayerNorm>()->Apply({}); });
    MessageOf<ValueError>([&] { std::make_shared<autograd::LayerNorm>()->Apply({nullptr}); });
}

TEST(LayerNorm, AnyNumberOfThreads) {
    const auto x = NoiseTensor({301, 130}, DataType::kFLOAT32);
    const auto grad = NoiseTensor({301, 130}, DataType::kFLOAT32, 2);
    for (const int which : {0, 1, 2}) {
        ExpectSameForAnyThreads([&] {
            const TensorList leaves = {x->Detach()->RequiresGrad(), Tensor::Ones({130})->RequiresGrad(),
                                       Tensor::Zeros({130})->RequiresGrad()};
            Normalize(leaves[0], leaves[1], leaves[2])->Backward(grad);
            return leaves[static_cast<size_t>(which)]->grad();
        });
    }
}

TensorPtr RmsNormalize(const TensorPtr &x, const TensorPtr &weight = nullptr) {
    return std::make_shared<autograd::RMSNorm>(kEps)->Apply({x, weight})[0];
}

// dbias stays empty.
Expected RmsReference(const TensorPtr &x, const TensorPtr &weight, const TensorPtr &grad) {
    const auto values = x->ToVector<double>(), g = grad->ToVector<double>();
    const auto n = static_cast<size_t>(x->Dim(-1));
    const auto w = weight != nullptr ? weight->ToVector<double>() : std::vector<double>(n, 1);
    Expected result{std::vector<double>(values.size()), std::vector<double>(values.size()), std::vector<double>(n), {}};
    for (size_t row = 0; row < values.size(); row += n) {
        double squares = 0, along = 0;
        for (size_t i = 0; i < n; ++i) {
            squares += values[row + i] * values[row + i] / static_cast<double>(n);
        }
        const double rstd = 1 / std::sqrt(squares + kEps);
        for (size_t i = 0; i < n; ++i) {
            const double xhat = values[row + i] * rstd;
            result.y[row + i] = xhat * w[i];
            result.dweight[i] += g[row + i] * xhat;
            along += g[row + i] * w[i] * xhat / static_cast<double>(n);
        }
        for (size_t i = 0; i < n; ++i) {
            result.dx[row + i] = rstd * (g[row + i] * w[i] - values[row + i] * rstd * along);
        }
    }
    return result;
}

TEST(RMSNorm, ValuesAndGradientsOnEveryInstructionSet) {
    ForEachInstructionSet([] {
        for (const DataType dtype : {DataType::kFLOAT64, DataType::kFLOAT32, DataType::kBFLOAT16, DataType::kFLOAT16}) {
            for (const std::vector<int64_t> &dims :
                 {std::vector<int64_t>{7}, {3, 5}, {2, 3, 8}, {4, 768}, {200, 17}, {5, 1}, {2, 1500}}) {
                for (const bool has_weight : {false, true}) {
                    const auto x = NoiseTensor(dims, dtype)->RequiresGrad();
                    const auto grad = NoiseTensor(dims, dtype, 2);
                    const auto weight = has_weight ? NoiseTensor({dims.back()}, dtype, 3)->RequiresGrad() : nullptr;
                    const auto expected = RmsReference(x, weight, grad);
                    const double tolerance = Tolerance(dtype) * (dims.back() == 1 ? 100 : 1);
                    const auto y = RmsNormalize(x, weight);
                    EXPECT_EQ(y->Dtype(), dtype);
                    ExpectNear(y, expected.y, tolerance, "y");
                    y->Backward(grad);
                    ExpectNear(x->grad(), expected.dx, tolerance, "dx");
                    if (has_weight) {
                        ExpectNear(weight->grad(), expected.dweight, tolerance, "dweight");
                    }
                }
            }
        }
    });
}

TEST(RMSNorm, SecondDerivatives) {
    const auto weight = NoiseTensor({5}, 3);
    const auto x = NoiseTensor({3, 5}, 5);
    ExpectSecondDerivative([&](const TensorPtr &at) { return RmsNormalize(at, weight); }, x, 1e-6);
    ExpectSecondDerivative([&](const TensorPtr &at) { return RmsNormalize(at); }, x, 1e-6);
    ExpectSecondDerivative([&](const TensorPtr &at) { return RmsNormalize(x, at)->Square(); }, weight, 1e-6);
}

TEST(RMSNorm, LayoutsEmptyTensorsAndWantedGradientsAlone) {
    const auto x = NoiseTensor({4, 6}, DataType::kFLOAT64)->Transpose(0, 1);
    ExpectNear(RmsNormalize(x), RmsReference(x, nullptr, x).y, 1e-12);
    const auto weight = Tensor::Ones({4})->RequiresGrad();
    RmsNormalize(Tensor::Empty({0, 4})->RequiresGrad(), weight)->Sum()->Backward();
    ExpectNear(weight->grad(), {0, 0, 0, 0}, 0);
    EXPECT_EQ(RmsNormalize(Tensor::Empty({3, 0}))->Dims(), (std::vector<int64_t>{3, 0}));
    const auto plain = NoiseTensor({3, 4}, DataType::kFLOAT32);
    weight->ZeroGrad();
    RmsNormalize(plain, weight)->Sum()->Backward();
    ExpectNear(weight->grad(), RmsReference(plain, weight, Tensor::Ones({3, 4})).dweight, 1e-5);
    EXPECT_EQ(plain->grad(), nullptr);
}

TEST(RMSNorm, AnyNumberOfThreads) {
    const auto x = NoiseTensor({301, 130}, DataType::kFLOAT32);
    for (const size_t which : {0, 1}) {
        ExpectSameForAnyThreads([&] {
            const TensorList leaves = {x->Detach()->RequiresGrad(), Tensor::Ones({130})->RequiresGrad()};
            RmsNormalize(leaves[0], leaves[1])->Backward(NoiseTensor({301, 130}, DataType::kFLOAT32, 2));
            return leaves[which]->grad();
        });
    }
}

TEST(RMSNorm, Errors) {
    const auto x = Tensor::Zeros({2, 3});
    EXPECT_EQ(MessageOf<ShapeError>([&] { RmsNormalize(x, Tensor::Ones({4})); }),
              "RMSNorm: expected a weight (3,), got (4,)");
    EXPECT_EQ(MessageOf<DtypeError>([&] { RmsNormalize(x, Tensor::Ones({3}, DataType::kFLOAT64)); }),
              "RMSNorm: expected a weight of float32, got float64");
    EXPECT_EQ(MessageOf<DtypeError>([&] { RmsNormalize(Tensor::Zeros({3}, DataType::kINT32)); }),
              "RMSNorm: expected a floating-point tensor, got int32");
    MessageOf<ShapeError>([&] { RmsNormalize(Tensor::FromScalar(1.0)); });
    MessageOf<ValueError>([&] { RmsNormalize(nullptr); });
}

}  // namespace
}  // namespace infini_train::test
