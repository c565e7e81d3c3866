#include "infini_train/include/grad_scaler.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/autocast.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/nn/functional.h"
#include "infini_train/include/optimizer.h"
#include "infini_train/include/tensor.h"

#include "test/support/tensors.h"

namespace infini_train {
namespace {

using Floats = std::vector<float>;
using test::Leaf;

constexpr GradScaler::Options kSmall{.init_scale = 8, .growth_factor = 4, .backoff_factor = 0.5, .growth_interval = 2};

// The gradient of x is `gradient`, times the scale.
void Backward(const GradScaler &scaler, const TensorPtr &x, float gradient) {
    scaler.Scale(x->Mul(gradient)->Sum())->Backward();
}

TEST(GradScaler, ScalesAndUnscales) {
    GradScaler scaler(kSmall);
    const auto x = Leaf({1, 2});
    optimizers::SGD sgd({x}, 0.5);
    Backward(scaler, x, 3);
    EXPECT_EQ(x->grad()->ToVector<float>(), (Floats{24, 24}));
    scaler.Unscale(&sgd);
    EXPECT_EQ(x->grad()->ToVector<float>(), (Floats{3, 3}));
    EXPECT_TRUE(scaler.Step(&sgd));
    EXPECT_EQ(x->ToVector<float>(), (Floats{-0.5, 0.5}));
    scaler.Update();
    EXPECT_EQ(scaler.scale(), 8);
}

TEST(GradScaler, LeavesOutAStepThatOverflowed) {
    GradScaler scaler(kSmall);
    const auto x = Leaf(1);
    optimizers::Adam adam({x}, 0.1);
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
        const double before = scaler.scale();
        adam.ZeroGrad();
        Backward(scaler, x, bad);
        EXPECT_FALSE(scaler.Step(&adam));
        EXPECT_TRUE(scaler.FoundNonFinite());
        EXPECT_EQ(x->Item<float>(), 1) << "neither the parameter nor the moments may have changed";
        scaler.Update();
        EXPECT_EQ(scaler.scale(), before / 2);
        EXPECT_FALSE(scaler.FoundNonFinite());
    }
    adam.ZeroGrad();
    Backward(scaler, x, 2);
    EXPECT_TRUE(scaler.Step(&adam));
    EXPECT_NEAR(x->Item<float>(), 0.9F, 1e-6) << "Adam's first step";
}

TEST(GradScaler, GrowsAfterSomeStepsWithoutAnOverflow) {
    GradScaler scaler(kSmall);
    const auto x = Leaf(1);
    optimizers::SGD sgd({x}, 0.0);
    const auto step = [&](float gradient) {
        sgd.ZeroGrad();
        Backward(scaler, x, gradient);
        scaler.Step(&sgd);
        scaler.Update();
        return scaler.scale();
    };
    EXPECT_EQ(step(1), 8);
    EXPECT_EQ(step(1), 32);
    EXPECT_EQ(step(1), 32);
    EXPECT_EQ(step(INFINITY), 16) << "the count begins anew";
    EXPECT_EQ(step(1), 16);
    EXPECT_EQ(step(1), 64);
    GradScaler other(kSmall);
    other.LoadStateDict(scaler.StateDict());
    EXPECT_EQ(other.StateDict(), scaler.StateDict());
    EXPECT_EQ(other.scale(), 64);
    EXPECT_THROW(other.LoadStateDict({{"scale", 1}}), ValueError);
    scaler.Update(5.0);
    EXPECT_EQ(scaler.scale(), 5);
}

TEST(GradScaler, RefusesCallsOutOfOrder) {
    GradScaler scaler(kSmall);
    const auto x = Leaf(1);
    optimizers::SGD sgd({x}, 0.5);
    EXPECT_THROW(scaler.Update(), ValueError);
    Backward(scaler, x, 1);
    scaler.Unscale(&sgd);
    EXPECT_THROW(scaler.Unscale(&sgd), ValueError);
    scaler.Step(&sgd);
    EXPECT_THROW(scaler.Step(&sgd), ValueError);
    EXPECT_THROW(scaler.Unscale(&sgd), ValueError);
    scaler.Update();
    EXPECT_THROW(scaler.Update(0.0), ValueError);
    EXPECT_THROW(GradScaler({.init_scale = 0}), ValueError);
    EXPECT_THROW(GradScaler({.growth_factor = 1}), ValueError);
    EXPECT_THROW(GradScaler({.backoff_factor = 1}), ValueError);
    EXPECT_THROW(GradScaler({.growth_interval = 0}), ValueError);
    const auto half = Leaf(1)->To(DataType::kFLOAT16)->Detach();
    half->set_requires_grad(true);
    optimizers::SGD of_half({half}, 0.5);
    half->Sum()->Backward();
    EXPECT_THROW(scaler.Unscale(&of_half), ValueError);
}

TEST(GradScaler, DisabledItIsNotThere) {
    GradScaler scaler({.enabled = false});
    const auto x = Leaf(1);
    optimizers::SGD sgd({x}, 0.5);
    Backward(scaler, x, 3);
    EXPECT_EQ(x->grad()->Item<float>(), 3);
    scaler.Unscale(&sgd);
    EXPECT_TRUE(scaler.Step(&sgd));
    scaler.Update();
    EXPECT_EQ(x->Item<float>(), -0.5F);
    EXPECT_EQ(scaler.scale(), 1);
}

// Gradients of 2^-30 vanish in float16, whose smallest number is 2^-24; scaled they arrive.
TEST(GradScaler, KeepsSmallGradientsFromVanishing) {
    const auto gradient_with = [](double scale) {
        GradScaler scaler({.init_scale = scale});
        const auto w = Tensor::Ones({1, 1});
        w->set_requires_grad(true);
        optimizers::SGD sgd({w}, 1.0);
        TensorPtr loss;
        {
            const autograd::AutocastGuard autocast(DeviceType::kCPU, DataType::kFLOAT16);
            loss = nn::function::Linear(Tensor::Ones({1, 1}), w)->Sum()->Mul(std::ldexp(1.0, -30));
        }
        scaler.Scale(loss)->Backward();
        scaler.Unscale(&sgd);
        return w->grad()->Item<double>();
    };
    EXPECT_EQ(gradient_with(1), 0.0);
    EXPECT_EQ(gradient_with(65536), std::ldexp(1.0, -30));
}

// Begins with a scale that overflows, finds one that doesn't, and learns.
TEST(GradScaler, ATrainingRecovers) {
    GradScaler scaler({.init_scale = std::ldexp(1.0, 24)});
    const auto w = Tensor::Zeros({1, 2});
    w->set_requires_grad(true);
    optimizers::SGD sgd({w}, 0.1);
    const auto x = Tensor::FromVector<float>({1, 0, 0, 1}, {{2, 2}}), y = Tensor::FromVector<float>({2, -3}, {{2, 1}});
    int left_out = 0;
    for (int step = 0; step < 120; ++step) {
        sgd.ZeroGrad();
        TensorPtr loss;
        {
            const autograd::AutocastGuard autocast(DeviceType::kCPU, DataType::kFLOAT16);
            loss = nn::function::Linear(x, w)->Sub(y)->Square()->Sum();
        }
        scaler.Scale(loss)->Backward();
        left_out += scaler.Step(&sgd) ? 0 : 1;
        scaler.Update();
    }
    EXPECT_GT(left_out, 3);
    EXPECT_LT(left_out, 20);
    const auto learned = w->ToVector<float>();
    EXPECT_NEAR(learned[0], 2, 1e-2);
    EXPECT_NEAR(learned[1], -3, 1e-2);
}

}  // namespace
}  // namespace infini_train
