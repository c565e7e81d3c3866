// The update rules against values that PyTorch 2 computed in float64, and their behaviour on every data type.

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/core/parallel.h"
#include "infini_train/include/optimizer.h"
#include "infini_train/include/tensor.h"

#include "test/support/tensors.h"

namespace infini_train {
namespace {

using optimizers::Adam;
using optimizers::AdamW;
using optimizers::SGD;

const std::vector<double> kStart = {1.0, -2.0, 0.5, 3.0};

std::vector<double> GradAt(int step) {
    std::vector<double> grad;
    for (int i = 0; i < 4; ++i) {
        grad.push_back(0.1 * (i + 1) * (step * i % 2 == 0 ? 1 : -1) + 0.05 * step);
    }
    return grad;
}

// Five steps from kStart in a data type.
std::vector<double> FiveSteps(const OptimizerCreator &create, DataType dtype) {
    const TensorPtr param = Tensor::FromVector(kStart)->To(dtype)->RequiresGrad();
    const auto optimizer = create({param});
    for (int step = 0; step < 5; ++step) {
        param->set_grad(Tensor::FromVector(GradAt(step))->To(dtype));
        optimizer->Step();
    }
    return param->ToVector<double>();
}

struct RuleCase {
    const char *name;
    OptimizerCreator create;
    std::vector<double> expected;
};

const std::vector<RuleCase> &Cases() {
    static const std::vector<RuleCase> cases = {
        {"sgd", SGD::Create(0.1), {0.9, -2.07, 0.3, 2.91}},
        {"sgd_decay",
         SGD::Create(0.1, 0, 0, 0.05),
         {0.87599563499062505, -2.0200501231312495, 0.28936627091718742, 2.8363916499656248}},
        {"sgd_momentum_dampening_decay",
         SGD::Create(0.1, 0.9, 0.3, 0.05),
         {0.78024828966074899, -2.0195622471558128, 0.099373717166966621, 2.6638427231882464}},
        {"sgd_nesterov_decay",
         SGD::Create(0.1, 0.9, 0, 0.05, true),
         {0.62042573257979061, -2.0296956600631186, -0.16814850868177647, 2.4956851151180661}},
        {"adam",
         Adam::Create(0.01),
         {0.95042156867055949, -2.0258817920120809, 0.44979306039718003, 2.9794349585240969}},
        {"adam_decay",
         Adam::Create(0.01, 0.8, 0.95, 1e-3, 0.1),
         {0.94962159156050341, -1.9813045869741976, 0.44960086182050313, 2.9616781344466214}},
        {"adamw",
         AdamW::Create(0.01),
         {0.9499316025705814, -2.0248762936024738, 0.44955312501016575, 2.977940348308953}},
        {"adamw_decay",
         AdamW::Create(0.01, 0.8, 0.95, 1e-3, 0.1),
         {0.94512311259677095, -2.0155921744075389, 0.44719222118883883, 2.9650561456257467}},
    };
    return cases;
}

void ExpectNear(const std::vector<double> &values, const std::vector<double> &expected, double tolerance,
                const char *name) {
    ASSERT_EQ(values.size(), expected.size()) << name;
    for (size_t i = 0; i < values.size(); ++i) {
        EXPECT_NEAR(values[i], expected[i], tolerance) << name << ", element " << i;
    }
}

TEST(UpdateRules, MatchPyTorchInEveryDataType) {
    for (const auto &[name, create, expected] : Cases()) {
        ExpectNear(FiveSteps(create, DataType::kFLOAT64), expected, 1e-13, name);
        ExpectNear(FiveSteps(create, DataType::kFLOAT32), expected, 2e-6, name);
        // The parameter is rounded at each of five steps, to half a unit in the last place of 2 to 4.
        ExpectNear(FiveSteps(create, DataType::kFLOAT16), expected, 5 * 0x1p-10, name);
        ExpectNear(FiveSteps(create, DataType::kBFLOAT16), expected, 5 * 0x1p-7, name);
    }
}

// One step of AdamW from a state of zeros moves by lr in the direction of the gradient's sign, plus the decay.
TEST(UpdateRules, SixteenBitParametersAreUpdatedInFloatAndRoundedOnce) {
    const auto param = Tensor::FromVector<float>({1.0F, 1.0F, -0.25F})->To(DataType::kBFLOAT16)->RequiresGrad();
    param->set_grad(Tensor::FromVector<float>({1e-3F, -2.0F, 4.0F})->To(DataType::kBFLOAT16));
    AdamW optimizer(TensorList{param}, 0.01, 0.9, 0.999, 0.0, 0.5);
    optimizer.Step();
    const std::vector<float> exact = {0.995F - 0.01F, 0.995F + 0.01F, -0.25F * 0.995F - 0.01F};
    for (size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(param->ToVector<float>()[i], static_cast<float>(BFloat16(exact[i])));
    }
    // A second moment of 1e-9 is nothing that float16 or a sum in bfloat16 could keep.
    EXPECT_EQ(optimizer.StateDict().at("0.exp_avg_sq")->Dtype(), DataType::kFLOAT32);
}

// Large enough for several chunks, with tensors that begin in the middle of one.
TensorList ManyTensors(std::vector<std::vector<double>> *values) {
    TensorList params;
    for (const int64_t size : {1, 100003, 7, 0, 40000, 16, 8191}) {
        std::vector<double> numbers;
        for (int64_t i = 0; i < size; ++i) {
            numbers.push_back(std::sin(static_cast<double>(i + size)));
        }
        params.push_back(Tensor::FromVector(numbers)->To(DataType::kFLOAT32)->RequiresGrad());
        params.back()->set_grad(Tensor::FromVector(numbers)->Mul(0.5)->To(DataType::kFLOAT32));
        values->push_back(std::move(numbers));
    }
    return params;
}

TEST(UpdateRules, CoverEveryElementOfManyTensorsForAnyNumberOfThreads) {
    const int before = GetNumThreads();
    std::vector<std::vector<std::vector<float>>> results;
    for (const int threads : {1, 2, 3, 7}) {
        SetNumThreads(threads);
        std::vector<std::vector<double>> start;
        const TensorList params = ManyTensors(&start);
        SGD sgd(params, 0.5, 0.9);
        Adam adam(params, 0.25, 0.0, 0.0, 1.0);
        sgd.Step();
        adam.Step();
        results.emplace_back();
        for (size_t i = 0; i < params.size(); ++i) {
            results.back().push_back(params[i]->ToVector<float>());
            for (size_t j = 0; j < start[i].size(); ++j) {
                const double grad = 0.5 * start[i][j];
                const double expected = start[i][j] - 0.5 * grad - 0.25 * grad / (std::abs(grad) + 1.0);
                ASSERT_NEAR(results.back()[i][j], expected, 1e-6) << "tensor " << i << ", element " << j;
            }
        }
        EXPECT_EQ(results.back(), results.front()) << threads << " threads";
    }
    SetNumThreads(before);
}

TEST(UpdateRules, MixedDataTypesInOneStep) {
    const TensorList params = {Tensor::Ones({300}, DataType::kFLOAT64), Tensor::Ones({5}, DataType::kFLOAT16),
                               Tensor::Ones({2000}, DataType::kBFLOAT16), Tensor::Ones({9}, DataType::kFLOAT32)};
    for (const TensorPtr &param : params) {
        param->set_requires_grad(true);
        param->set_grad(Tensor::Full(param->Dims(), 2, param->Dtype()));
    }
    SGD optimizer(params, 0.25);
    optimizer.Step();
    for (const TensorPtr &param : params) {
        EXPECT_EQ(param->ToVector<double>(), std::vector<double>(static_cast<size_t>(param->NumElements()), 0.5));
    }
}

TEST(UpdateRules, StridesDontMatter) {
    const auto base = test::Of({1, 2, 3, 4, 5, 6}, {2, 3});
    const auto param = base->Transpose(0, 1)->Detach()->RequiresGrad();  // (3, 2): 1 4 | 2 5 | 3 6
    const auto grad = test::Of({2, 4, 6, 8, 10, 12}, {2, 3})->Transpose(0, 1);
    param->set_grad(grad);
    SGD optimizer(TensorList{param}, 0.5, 0.5);
    optimizer.Step();
    EXPECT_EQ(test::Values(param), test::Floats({0, 0, 0, 0, 0, 0}));
    EXPECT_EQ(test::Values(grad), test::Floats({2, 8, 4, 10, 6, 12}));
    param->set_grad(test::Of({1, 2, 3, 4, 5, 6}, {3, 2}));
    optimizer.Step();  // the sum is 1 + 1, 4 + 2, 2 + 3, 5 + 4, 3 + 5, 6 + 6
    EXPECT_EQ(test::Values(param), test::Floats({-1, -3, -2.5, -4.5, -4, -6}));
    EXPECT_EQ(test::Values(base), test::Floats({-1, -2.5, -4, -3, -4.5, -6}));
}

TEST(UpdateRules, InfinityAndNanStayWhereTheyAre) {
    const float inf = std::numeric_limits<float>::infinity();
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const auto param = test::Leaf({inf, 1, 1, 1});
    param->set_grad(test::Of({0, nan, inf, 0}));
    SGD optimizer(TensorList{param}, 0.5);
    optimizer.Step();
    EXPECT_EQ(test::Values(param)[0], inf);
    EXPECT_TRUE(std::isnan(test::Values(param)[1]));
    EXPECT_EQ(test::Values(param)[2], -inf);
    EXPECT_EQ(test::Values(param)[3], 1);
    AdamW adamw(TensorList{param});
    param->set_grad(test::Of({0, 0, 0, 1}));
    adamw.Step();
    EXPECT_EQ(test::Values(param)[0], inf);
    EXPECT_FLOAT_EQ(test::Values(param)[3], 1 - 1e-5F - 1e-3F);
}

}  // namespace
}  // namespace infini_train
