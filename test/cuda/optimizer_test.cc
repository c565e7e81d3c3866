// Optimizers and clipping on a GPU and on the CPU: more parameters than fit one launch, of many sizes and data types.

#include "infini_train/include/optimizer.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/core/generator.h"
#include "infini_train/include/nn/utils/clip_grad.h"
#include "infini_train/include/tensor.h"

#include "test/cuda/gpu.h"

namespace infini_train {
namespace {

using Create = std::function<std::shared_ptr<Optimizer>(const TensorList &params)>;

// 80 parameters; those of 4,096 elements, a block's piece, and around it are among them.
TensorList Parameters(Device device, DataType dtype) {
    TensorList params;
    for (int64_t i = 0; i < 80; ++i) {
        const int64_t size = i % 20 == 7 ? 4095 + i / 20 : i * i % 97 + 1;
        params.push_back(Tensor::Randn({size})->To(dtype)->To(device));
        params.back()->set_requires_grad(true);
    }
    return params;
}

// Three steps with gradients that are made up and, from the second on, clipped; an element changed by hand in between.
std::vector<double> RunOn(Device device, const Create &create, DataType dtype) {
    ManualSeed(2);
    const TensorList params = Parameters(device, dtype);
    const auto optimizer = create(params);
    std::vector<double> norms;
    for (int step = 0; step < 3; ++step) {
        optimizer->ZeroGrad();
        for (const auto &param : params) {
            param->Mul(Tensor::Randn(param->Dims())->To(dtype)->To(device))->Sum()->Backward();
        }
        norms.push_back(nn::utils::ClipGradNorm(params, step == 0 ? std::numeric_limits<double>::infinity() : 10.0));
        optimizer->Step();
        params[3]->Detach()->Narrow(0, 0, 1)->Fill_(0.25);
    }
    for (const auto &param : params) {
        const auto values = param->ToVector<double>();
        norms.insert(norms.end(), values.begin(), values.end());
    }
    for (const auto &[name, tensor] : optimizer->StateDict()) {
        const auto values = tensor->ToVector<double>();
        norms.insert(norms.end(), values.begin(), values.end());
    }
    return norms;
}

TEST(OptimizersOnGpu, StepAsOnTheCpu) {
    INFINI_TRAIN_NEEDS_GPU();
    const struct {
        const char *name;
        Create create;
    } optimizers[] = {
        {"SGD", [](const TensorList &p) { return std::make_shared<optimizers::SGD>(p, 0.1); }},
        {"SGD with Nesterov's momentum",
         [](const TensorList &p) { return std::make_shared<optimizers::SGD>(p, 0.1, 0.9, 0.0, 0.01, true); }},
        {"Adam", [](const TensorList &p) { return std::make_shared<optimizers::Adam>(p, 0.01); }},
        {"AdamW",
         [](const TensorList &p) { return std::make_shared<optimizers::AdamW>(p, 0.01, 0.9, 0.99, 1e-8, 0.1); }},
    };
    for (const auto &[name, create] : optimizers) {
        for (const DataType dtype : {DataType::kFLOAT32, DataType::kFLOAT64, DataType::kBFLOAT16, DataType::kFLOAT16}) {
            SCOPED_TRACE(std::string(name) + ", " + ToString(dtype));
            const auto on_gpu = RunOn(test::Gpu(), create, dtype), on_cpu = RunOn(Device(), create, dtype);
            ASSERT_EQ(on_gpu.size(), on_cpu.size());
            const double tolerance = dtype == DataType::kFLOAT64 ? 1e-12 : dtype == DataType::kFLOAT32 ? 1e-5 : 1e-2;
            for (size_t i = 0; i < on_cpu.size(); ++i) {
                ASSERT_NEAR(on_gpu[i], on_cpu[i], tolerance * (1 + std::abs(on_cpu[i]))) << "number " << i;
            }
        }
    }
}

TEST(OptimizersOnGpu, NormsAndLimits) {
    INFINI_TRAIN_NEEDS_GPU();
    for (const Device device : {Device(), test::Gpu()}) {
        SCOPED_TRACE(device.ToString());
        const auto a = Tensor::Zeros({2}, DataType::kFLOAT32, device),
                   b = Tensor::Zeros({3}, DataType::kFLOAT64, device);
        a->set_requires_grad(true);
        b->set_requires_grad(true);
        a->Mul(Tensor::FromVector<float>({3, -4})->To(device))->Sum()->Backward();
        b->Mul(Tensor::FromVector<double>({0, 12, 0})->To(device))->Sum()->Backward();
        constexpr double kInfinity = std::numeric_limits<double>::infinity();
        EXPECT_EQ(nn::utils::ClipGradNorm({a, b}, kInfinity), 13);
        EXPECT_EQ(nn::utils::ClipGradNorm({a, b}, kInfinity, 1), 19);
        EXPECT_EQ(nn::utils::ClipGradNorm({a, b}, kInfinity, kInfinity), 12);
        nn::utils::ClipGradValue({a, b}, 3.5);
        EXPECT_EQ(a->grad()->ToVector<double>(), (std::vector<double>{3, -3.5}));
        EXPECT_EQ(b->grad()->ToVector<double>(), (std::vector<double>{0, 3.5, 0}));
        nn::utils::ScaleGrads({a, b}, 2);
        EXPECT_EQ(a->grad()->ToVector<double>(), (std::vector<double>{6, -7}));
        a->grad()->Fill_(std::numeric_limits<double>::quiet_NaN());
        EXPECT_TRUE(std::isnan(nn::utils::ClipGradNorm({a, b}, kInfinity, kInfinity)));
    }
}

}  // namespace
}  // namespace infini_train
