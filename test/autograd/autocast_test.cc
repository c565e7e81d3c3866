#include "infini_train/include/autograd/autocast.h"

#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/checkpoint.h"
#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/autograd/linear.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/nn/functional.h"
#include "infini_train/include/nn/modules/linear.h"
#include "infini_train/include/tensor.h"

#include "test/support/tensors.h"

namespace infini_train {
namespace {

using autograd::AutocastGuard;
using autograd::AutocastPolicy;

constexpr DeviceType kCpu = DeviceType::kCPU;
constexpr DataType kBf16 = DataType::kBFLOAT16, kF16 = DataType::kFLOAT16, kF32 = DataType::kFLOAT32;

TensorPtr Floats(const std::vector<int64_t> &dims, DataType dtype = kF32) {
    return Tensor::Full(dims, 0.5, dtype);
}

// PyTorch's lists: products narrow, what loses too much is float32, joins take the widest, all else its inputs' type.
TEST(Autocast, ChoosesByOperator) {
    const auto x = Floats({2, 2}), narrow = Floats({2, 2}, kBf16);
    const AutocastGuard guard(kCpu);
    EXPECT_EQ(x->Matmul(x)->Dtype(), kBf16);
    EXPECT_EQ(x->Matmul(narrow)->Dtype(), kBf16);
    EXPECT_EQ(nn::function::Linear(x, x)->Dtype(), kBf16);
    const auto image = Floats({1, 1, 3, 3});
    EXPECT_EQ(nn::function::Conv2d(image, image)->Dtype(), kBf16);
    const auto heads = Floats({1, 1, 2, 4});
    EXPECT_EQ(nn::function::ScaledDotProductAttention(heads, heads, heads)->Dtype(), kBf16);
    for (const auto &result :
         {narrow->Softmax(-1), narrow->LogSoftmax(-1), narrow->Exp(), narrow->Log(), narrow->Pow(2), narrow->Rsqrt(),
          narrow->Reciprocal(), narrow->Sum(), nn::function::LayerNorm(narrow, {2}),
          nn::function::MseLoss(narrow, narrow), nn::function::MseLoss(narrow, x),
          nn::function::CrossEntropy(narrow, Tensor::FromVector<int64_t>({0, 1}))}) {
        EXPECT_EQ(result->Dtype(), kF32);
    }
    EXPECT_EQ(narrow->Relu()->Dtype(), kBf16);
    EXPECT_EQ(x->Relu()->Dtype(), kF32);
    EXPECT_EQ(narrow->Add(narrow)->Dtype(), kBf16);
    EXPECT_EQ(nn::function::Concat({narrow, x}, 0)->Dtype(), kF32);
    EXPECT_EQ(nn::function::Concat({narrow, narrow}, 0)->Dtype(), kBf16);
}

TEST(Autocast, LeavesOtherTypesAlone) {
    const AutocastGuard guard(kCpu);
    const auto wide = Floats({2, 2}, DataType::kFLOAT64);
    EXPECT_EQ(wide->Matmul(wide)->Dtype(), DataType::kFLOAT64);
    EXPECT_EQ(wide->Exp()->Dtype(), DataType::kFLOAT64);
    const auto integers = Tensor::FromVector<int64_t>({1, 2, 3, 4}, {{2, 2}});
    EXPECT_EQ(integers->Matmul(integers)->Dtype(), DataType::kINT64);
    EXPECT_EQ(integers->Sum()->Dtype(), DataType::kINT64);
}

TEST(Autocast, ScopesNestAndEnd) {
    const auto x = Floats({2, 2});
    EXPECT_FALSE(AutocastGuard::IsEnabled(kCpu));
    {
        const AutocastGuard outer(kCpu, kF16);
        EXPECT_EQ(x->Matmul(x)->Dtype(), kF16);
        {
            const AutocastGuard off(kCpu, kBf16, /*enabled=*/false);
            EXPECT_FALSE(AutocastGuard::IsEnabled(kCpu));
            EXPECT_EQ(x->Matmul(x)->Dtype(), kF32);
            const AutocastGuard inner(kCpu, kBf16);
            EXPECT_EQ(x->Matmul(x)->Dtype(), kBf16);
        }
        EXPECT_EQ(AutocastGuard::Dtype(kCpu), kF16);
        try {
            const AutocastGuard thrown(kCpu, kBf16);
            throw ValueError("out of the scope");
        } catch (const ValueError &) {
        }
        EXPECT_EQ(x->Matmul(x)->Dtype(), kF16);
        std::thread([&] { EXPECT_EQ(x->Matmul(x)->Dtype(), kF32); }).join();
    }
    EXPECT_EQ(x->Matmul(x)->Dtype(), kF32);
    const AutocastGuard elsewhere(DeviceType::kCUDA);
    EXPECT_EQ(x->Matmul(x)->Dtype(), kF32);
    EXPECT_THROW(AutocastGuard(kCpu, kF32), DtypeError);
}

// bfloat16 has 8 bits of mantissa: 1 + 2^-9 is 1 there, so the product is exact in either type, and different.
TEST(Autocast, ComputesInTheNarrowType) {
    const auto a = Tensor::FromVector<float>({1.001953125F}, {{1, 1}}), b = Tensor::FromVector<float>({3.0F}, {{1, 1}});
    EXPECT_FLOAT_EQ(a->Matmul(b)->Item<float>(), 3.005859375F);
    const AutocastGuard guard(kCpu);
    EXPECT_EQ(a->Matmul(b)->Item<float>(), 3.0F);
}

TEST(Autocast, ParametersGetFloat32Gradients) {
    const auto weight = Tensor::FromVector<float>({1, 2, 3, 4}, {{2, 2}});
    weight->set_requires_grad(true);
    const auto linear = std::make_shared<nn::Linear>(weight);
    TensorPtr loss;
    {
        const AutocastGuard guard(kCpu);
        const auto x = Tensor::FromVector<float>({1, 2}, {{1, 2}});
        // Twice: both uses share one cast, and their gradients meet.
        const auto y = (*linear)({x})[0]->Add((*linear)({x})[0]);
        EXPECT_EQ(y->Dtype(), kBf16);
        loss = y->Sum();
        EXPECT_EQ(loss->Dtype(), kF32);
        EXPECT_EQ(loss->Item<float>(), 32.0F);
    }
    loss->Backward();
    EXPECT_EQ(weight->grad()->Dtype(), kF32);
    EXPECT_EQ(weight->grad()->ToVector<float>(), (std::vector<float>{2, 4, 2, 4}));
}

TEST(Autocast, AChangedParameterIsCastAgain) {
    const auto weight = test::Leaf({1, 1})->Detach()->View({1, 2});
    weight->set_requires_grad(true);
    const auto x = Tensor::Ones({1, 2});
    const AutocastGuard guard(kCpu);
    EXPECT_EQ(nn::function::Linear(x, weight)->Item<float>(), 2.0F);
    {
        const autograd::NoGradGuard no_grad;
        weight->Mul_(3);
    }
    EXPECT_EQ(nn::function::Linear(x, weight)->Item<float>(), 6.0F);
}

TEST(Autocast, HooksSeeWhatTheOperatorTakes) {
    const auto linear = std::make_shared<autograd::Linear>();
    std::vector<DataType> seen;
    linear->RegisterForwardPreHook([&](auto *, const TensorList &inputs) {
        for (const auto &input : inputs) {
            seen.push_back(input->Dtype());
        }
    });
    const auto w = Floats({2, 2});
    w->set_requires_grad(true);
    const AutocastGuard guard(kCpu);
    linear->Apply({Floats({1, 2}), w});
    EXPECT_EQ(seen, (std::vector<DataType>{kBf16, kBf16}));
}

// The pass itself isn't affected: its products take what the graph has.
TEST(Autocast, BackwardInsideOfAGuard) {
    const auto a = Tensor::FromVector<float>({1.001953125F}, {{1, 1}}), b = Tensor::FromVector<float>({3.0F}, {{1, 1}});
    a->set_requires_grad(true);
    b->set_requires_grad(true);
    const auto product = a->Matmul(b);
    const AutocastGuard guard(kCpu);
    product->Backward();
    EXPECT_EQ(b->grad()->Item<float>(), 1.001953125F);
    EXPECT_TRUE(AutocastGuard::IsEnabled(kCpu));
}

TEST(Autocast, ACheckpointRecomputesAsItWas) {
    const auto w = Floats({2, 2});
    w->set_requires_grad(true);
    const auto x = Floats({2, 2});
    x->set_requires_grad(true);
    std::vector<DataType> types;
    TensorPtr y;
    {
        const AutocastGuard guard(kCpu);
        y = autograd::Checkpoint(
            [&](const TensorList &inputs) -> TensorList {
                const auto z = inputs[0]->Matmul(w);
                types.push_back(z->Dtype());
                return {z->Mul(z)};
            },
            {x})[0];
    }
    y->Sum()->Backward();
    EXPECT_EQ(types, (std::vector<DataType>{kBf16, kBf16}));
    EXPECT_EQ(x->grad()->Dtype(), kF32);
    EXPECT_EQ(x->grad()->ToVector<float>(), std::vector<float>(4, 1.0F));
}

TEST(Autocast, PoliciesOfOnesOwn) {
    EXPECT_EQ(autograd::GetAutocastPolicy("Matmul"), AutocastPolicy::kNarrow);
    EXPECT_EQ(autograd::GetAutocastPolicy("Tanh"), AutocastPolicy::kNone);
    autograd::SetAutocastPolicy("Tanh", AutocastPolicy::kFloat32);
    {
        const AutocastGuard guard(kCpu);
        EXPECT_EQ(Floats({2}, kBf16)->Tanh()->Dtype(), kF32);
    }
    autograd::SetAutocastPolicy("Tanh", AutocastPolicy::kNone);
}

}  // namespace
}  // namespace infini_train
