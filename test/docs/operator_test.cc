// The operator that docs/add_an_operator.md adds to the library.

#include <cmath>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/activations.h"
#include "infini_train/include/autograd/gradcheck.h"
#include "infini_train/include/tensor.h"

namespace infini_train {
namespace {

TEST(AddAnOperator, SoftsignHasTheFormulasValues) {
    const std::vector<float> values = {-1000, -3, -0.5, 0, 0.25, 1, 7};
    auto x = Tensor::FromVector(values)->RequiresGrad();
    auto y = x->Softsign();
    y->Backward(Tensor::OnesLike(y));
    const auto result = y->ToVector<double>();
    const auto grad = x->grad()->ToVector<double>();
    for (size_t i = 0; i < values.size(); ++i) {
        const double scale = 1 / (1 + std::abs(static_cast<double>(values[i])));
        EXPECT_NEAR(result[i], values[i] * scale, 1e-6);
        EXPECT_NEAR(grad[i], scale * scale, 1e-6);
    }
    EXPECT_EQ(y->grad_fn()->type(), "Softsign");
    EXPECT_EQ(x->Detach()->To(DataType::kINT32)->Softsign()->Dtype(), DataType::kFLOAT32);
}

TEST(AddAnOperator, SoftsignIsDifferentiableTwice) {
    const auto softsign = [](const TensorList &inputs) -> TensorList { return {inputs[0]->Softsign()}; };
    const TensorList inputs = {Tensor::FromVector<double>({-2, -0.7, 0.3, 1.5})->RequiresGrad()};
    const auto first = autograd::GradCheck(softsign, inputs);
    EXPECT_TRUE(first) << first.message;
    const auto second = autograd::GradGradCheck(softsign, inputs);
    EXPECT_TRUE(second) << second.message;
}

// The formula stands in the middle of the list: the operators around it are what they were.
TEST(AddAnOperator, ItsNeighboursStay) {
    auto x = Tensor::FromVector<double>({-1, 0, 2});
    const auto silu = x->Silu()->ToVector<double>();
    const auto gelu = x->Gelu()->ToVector<double>();
    for (size_t i = 0; i < silu.size(); ++i) {
        const double value = x->ToVector<double>()[i];
        EXPECT_NEAR(silu[i], value / (1 + std::exp(-value)), 1e-12);
        EXPECT_NEAR(gelu[i], 0.5 * value * std::erfc(-value / std::sqrt(2.0)), 1e-12);
    }
}

}  // namespace
}  // namespace infini_train
