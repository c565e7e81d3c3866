#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/activations.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/nn/functional.h"
#include "infini_train/include/tensor.h"

#include "test/operators/near.h"
#include "test/support/instruction_sets.h"

namespace infini_train::test {
namespace {

using nn::function::SwiGlu;

struct Expected {
    std::vector<double> y, dgate, dup;
};

Expected Reference(const TensorPtr &gate, const TensorPtr &up, const TensorPtr &grad) {
    const auto x = gate->ToVector<double>(), u = up->ToVector<double>(), g = grad->ToVector<double>();
    Expected result;
    for (size_t i = 0; i < x.size(); ++i) {
        const double s = 1 / (1 + std::exp(-x[i]));
        result.y.push_back(x[i] * s * u[i]);
        result.dgate.push_back(g[i] * u[i] * (s + x[i] * s * (1 - s)));
        result.dup.push_back(g[i] * x[i] * s);
    }
    return result;
}

TEST(SwiGLU, ValuesAndGradientsOnEveryInstructionSet) {
    ForEachInstructionSet([] {
        for (const std::vector<int64_t> &dims : {std::vector<int64_t>{}, {1}, {3, 5}, {2, 3, 64}, {2, 1500}, {0, 4}}) {
            for (const auto &[dtype, tolerance] : {std::pair{DataType::kFLOAT64, 1e-14},
                                                   {DataType::kFLOAT32, 1e-6},
                                                   {DataType::kFLOAT16, 2e-3},
                                                   {DataType::kBFLOAT16, 2e-2}}) {
                const auto gate = NoiseTensor(dims, dtype)->Mul(6)->Detach()->RequiresGrad();
                const auto up = NoiseTensor(dims, dtype, 2)->RequiresGrad();
                const auto grad = NoiseTensor(dims, dtype, 3);
                const auto y = SwiGlu(gate, up);
                y->Backward(grad);
                const auto expected = Reference(gate, up, grad);
                EXPECT_EQ(y->Dtype(), dtype);
                ExpectNear(y, expected.y, tolerance);
                ExpectNear(gate->grad(), expected.dgate, tolerance);
                ExpectNear(up->grad(), expected.dup, tolerance);
            }
        }
    });
}

TEST(SwiGLU, GradientsOfTheHalvesOfOneTensorAreJoinedInPlace) {
    const auto x = NoiseTensor({2, 3, 10}, DataType::kFLOAT64)->RequiresGrad();
    const void *part = nullptr, *joined = nullptr;
    const auto halves = MemoryOfGradient::Watch(x, &joined)->Split(5, 2);
    const auto grad = NoiseTensor({2, 3, 5}, DataType::kFLOAT64, 3);
    SwiGlu(halves[0], MemoryOfGradient::Watch(halves[1], &part))->Backward(grad);
    EXPECT_NE(part, nullptr);
    EXPECT_EQ(part, joined);
    const auto expected = Reference(halves[0]->Detach(), halves[1]->Detach(), grad);
    ExpectNear(x->grad()->Narrow(2, 0, 5), expected.dgate, 1e-14);
    ExpectNear(x->grad()->Narrow(2, 5, 5), expected.dup, 1e-14);
}

// A gradient that a hook has replaced isn't where the other one is.
TEST(SwiGLU, AReplacedGradientIsJoinedByACopy) {
    const auto x = NoiseTensor({3, 8}, DataType::kFLOAT64)->RequiresGrad();
    const auto halves = x->Split(4, 1);
    halves[0]->RegisterHook([](const TensorPtr &grad) { return grad->Mul(2); });
    const auto grad = NoiseTensor({3, 4}, DataType::kFLOAT64, 3);
    SwiGlu(halves[0], halves[1])->Backward(grad);
    const auto expected = Reference(halves[0]->Detach(), halves[1]->Detach(), grad->Mul(2));
    ExpectNear(x->grad()->Narrow(1, 0, 4), expected.dgate, 1e-14);
    ExpectNear(x->grad()->Narrow(1, 4, 4)->Mul(2), expected.dup, 1e-14);
}

TEST(SwiGLU, OtherLayoutsAndWantedGradientsAlone) {
    const auto gate = NoiseTensor({4, 6}, DataType::kFLOAT64)->Transpose(0, 1);
    const auto up = NoiseTensor({6, 4}, DataType::kFLOAT64, 2)->RequiresGrad();
    const auto y = SwiGlu(gate, up);
    const auto grad = NoiseTensor({4, 6}, DataType::kFLOAT64, 3)->Transpose(0, 1);
    y->Backward(grad);
    ExpectNear(y, Reference(gate, up, grad).y, 1e-14);
    ExpectNear(up->grad(), Reference(gate, up, grad).dup, 1e-14);
}

TEST(SwiGLU, FarOutItIsZeroOrTheProduct) {
    const double far = std::numeric_limits<float>::max();
    const auto gate = Tensor::FromVector<float>({-1000, 1000, -static_cast<float>(far)});
    ExpectNear(SwiGlu(gate, Tensor::Full({3}, 2.0)), {0, 2000, 0}, 0);
}

TEST(SwiGLU, Errors) {
    const auto x = Tensor::Zeros({2, 3});
    EXPECT_EQ(MessageOf<ShapeError>([&] { SwiGlu(x, Tensor::Zeros({3})); }),
              "SwiGLU: expected gate and up of the same dims, got (2, 3) and (3,)");
    EXPECT_EQ(MessageOf<DtypeError>([&] { SwiGlu(x, x->To(DataType::kFLOAT64)); }),
              "SwiGLU: expected gate and up of one floating-point type, got float32 and float64");
    MessageOf<ValueError>([&] { SwiGlu(x, nullptr); });
}

}  // namespace
}  // namespace infini_train::test
