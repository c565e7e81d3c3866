// The elementary functions of float against the standard library's in double, in units in the last place.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/tensor.h"

#include "test/support/instruction_sets.h"

namespace infini_train {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The distance of `value` from `exact` in units of the last place of a float like `exact`.
double Ulps(float value, double exact) {
    if (std::isnan(exact) || std::isnan(value)) {
        return std::isnan(exact) == std::isnan(value) ? 0 : kInf;
    }
    const auto rounded = static_cast<float>(exact);
    if (std::isinf(rounded) || std::isinf(value)) {
        // Just at the limit, either may be the one that is infinite.
        return rounded == value || std::abs(std::abs(exact) - 0x1p128) < 0x1p105 ? 0 : kInf;
    }
    const double magnitude = std::max(std::abs(exact), static_cast<double>(std::numeric_limits<float>::min()));
    const double ulp = std::ldexp(1.0, std::ilogb(magnitude) - 23);
    return std::abs(static_cast<double>(value) - exact) / ulp;
}

// Floats of all magnitudes up to `limit`, both signs, subnormal ones, and the special ones.
std::vector<float> Sample(float limit) {
    std::vector<float> sample = {0.0F, -0.0F, kInf, -kInf, kNan};
    for (uint32_t bits = 1; bits <= std::bit_cast<uint32_t>(limit); bits += 20011) {
        sample.push_back(std::bit_cast<float>(bits));
        sample.push_back(-std::bit_cast<float>(bits));
    }
    return sample;
}

// Expects errors of at most 2.5 units on every instruction set.
void ExpectAccurate(const std::vector<float> &sample, const std::function<TensorPtr(const TensorPtr &)> &op,
                    const std::function<double(double)> &exact) {
    test::ForEachInstructionSet([&] {
        const auto values = op(Tensor::FromVector(sample))->ToVector<float>();
        double largest = 0;
        float worst = 0;
        for (size_t i = 0; i < sample.size(); ++i) {
            const double error = Ulps(values[i], exact(sample[i]));
            if (error > largest) {
                largest = error;
                worst = sample[i];
            }
        }
        EXPECT_LE(largest, 2.5) << "units in the last place, at " << worst;
    });
}

const float kLargest = std::numeric_limits<float>::max();

TEST(FloatMath, Exp) {
    ExpectAccurate(
        Sample(120.0F), [](const TensorPtr &x) { return x->Exp(); }, [](double x) { return std::exp(x); });
    ExpectAccurate(
        Sample(kLargest), [](const TensorPtr &x) { return x->Exp(); }, [](double x) { return std::exp(x); });
}

TEST(FloatMath, Log) {
    ExpectAccurate(
        Sample(kLargest), [](const TensorPtr &x) { return x->Log(); }, [](double x) { return std::log(x); });
}

TEST(FloatMath, Tanh) {
    ExpectAccurate(
        Sample(kLargest), [](const TensorPtr &x) { return x->Tanh(); }, [](double x) { return std::tanh(x); });
}

TEST(FloatMath, Sigmoid) {
    ExpectAccurate(
        Sample(kLargest), [](const TensorPtr &x) { return x->Sigmoid(); },
        [](double x) { return 1 / (1 + std::exp(-x)); });
}

TEST(FloatMath, SineAndCosineAtAnyAngle) {
    ExpectAccurate(
        Sample(kLargest), [](const TensorPtr &x) { return x->Sin(); }, [](double x) { return std::sin(x); });
    ExpectAccurate(
        Sample(kLargest), [](const TensorPtr &x) { return x->Cos(); }, [](double x) { return std::cos(x); });
    ExpectAccurate(
        Sample(1e6F), [](const TensorPtr &x) { return x->Sin(); }, [](double x) { return std::sin(x); });
    ExpectAccurate(
        Sample(1e6F), [](const TensorPtr &x) { return x->Cos(); }, [](double x) { return std::cos(x); });
}

TEST(FloatMath, RsqrtAndReciprocal) {
    ExpectAccurate(
        Sample(kLargest), [](const TensorPtr &x) { return x->Rsqrt(); }, [](double x) { return 1 / std::sqrt(x); });
    ExpectAccurate(
        Sample(kLargest), [](const TensorPtr &x) { return x->Reciprocal(); }, [](double x) { return 1 / x; });
}

// Where the result is far below x, the digits that count are those of an activation's largest values.
void ExpectActivation(const TensorPtr &actual, const std::vector<float> &x, const std::function<double(double)> &exact,
                      const char *name) {
    const auto values = actual->ToVector<float>();
    for (size_t i = 0; i < x.size(); ++i) {
        if (std::isfinite(x[i])) {
            const double y = exact(x[i]);
            ASSERT_NEAR(values[i], y, 3e-7 * std::abs(x[i]) + 1e-44) << name << " at " << x[i];
            ASSERT_NEAR(values[i], y, 2e-5 * std::abs(y) + 1e-35) << name << " at " << x[i];
        }
    }
    EXPECT_EQ(values[2], kInf) << name;
    EXPECT_TRUE(std::isnan(values[4])) << name;
}

TEST(FloatMath, GeluAndSilu) {
    const auto x = Sample(30.0F);
    test::ForEachInstructionSet([&] {
        const auto input = Tensor::FromVector(x);
        ExpectActivation(
            input->Gelu(), x, [](double v) { return 0.5 * v * std::erfc(-v * std::sqrt(0.5)); }, "Gelu");
        ExpectActivation(
            input->Gelu(true), x,
            [](double v) { return v / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))); },
            "Gelu(tanh)");
        ExpectActivation(
            input->Silu(), x, [](double v) { return v / (1 + std::exp(-v)); }, "Silu");
    });
}

}  // namespace
}  // namespace infini_train
