// A convolution of more images than go at a time, on a GPU and on the CPU: those of the operator table are few and
// small.

#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/core/generator.h"
#include "infini_train/include/nn/functional.h"
#include "infini_train/include/tensor.h"

#include "test/cuda/gpu.h"

namespace infini_train {
namespace {

// The output's sum, and the gradients of weight and input.
std::vector<std::vector<double>> RunOn(Device device) {
    ManualSeed(4);
    // 5.3 MB of columns an image.
    const auto x = Tensor::Randn({13, 2, 192, 192}, DataType::kFLOAT64)->To(device);
    const auto weight = Tensor::Randn({1, 2, 3, 3}, DataType::kFLOAT64)->To(device);
    x->set_requires_grad(true);
    weight->set_requires_grad(true);
    const auto y = nn::function::Conv2d(x, weight, nullptr, autograd::Size2d(1), autograd::Size2d(1));
    const auto loss = y->Square()->Sum();
    loss->Backward();
    return {loss->Detach()->ToVector<double>(), weight->grad()->ToVector<double>(),
            x->grad()->Sum(std::vector<int64_t>{1, 2, 3}, false)->ToVector<double>()};
}

TEST(ConvolutionOnGpu, InSeveralRounds) {
    INFINI_TRAIN_NEEDS_GPU();
    const auto on_gpu = RunOn(test::Gpu()), on_cpu = RunOn(Device());
    for (size_t part = 0; part < on_cpu.size(); ++part) {
        ASSERT_EQ(on_gpu[part].size(), on_cpu[part].size());
        for (size_t i = 0; i < on_cpu[part].size(); ++i) {
            EXPECT_NEAR(on_gpu[part][i], on_cpu[part][i], 1e-9 * (1 + std::abs(on_cpu[part][i]))) << part << ", " << i;
        }
    }
}

}  // namespace
}  // namespace infini_train
