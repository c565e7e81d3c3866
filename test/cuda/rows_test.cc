// Operators on rows long enough for a block each, on a GPU and on the CPU: those of the operator table are short.

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/core/generator.h"
#include "infini_train/include/nn/functional.h"
#include "infini_train/include/tensor.h"

#include "test/cuda/gpu.h"

namespace infini_train {
namespace {

using Operator = std::function<TensorPtr(const TensorPtr &x, const TensorPtr &weight)>;

struct Values {
    std::vector<double> output, grad, grad_weight;
};

Values RunOn(Device device, const Operator &run, int64_t rows, int64_t length, DataType dtype) {
    ManualSeed(rows + length);
    const auto x = Tensor::Randn({rows, length})->To(dtype)->To(device);
    const auto weight = Tensor::Randn({length})->To(dtype)->To(device);
    x->set_requires_grad(true);
    weight->set_requires_grad(true);
    const auto y = run(x, weight);
    y->Backward(Tensor::Randn(y->Dims())->To(dtype)->To(device));
    return {y->Detach()->ToVector<double>(), x->grad()->ToVector<double>(),
            weight->grad() != nullptr ? weight->grad()->ToVector<double>() : std::vector<double>{}};
}

void ExpectNear(const std::vector<double> &actual, const std::vector<double> &expected, double tolerance) {
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
        ASSERT_NEAR(actual[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << "element " << i;
    }
}

TEST(RowsOnGpu, OfAnyLength) {
    INFINI_TRAIN_NEEDS_GPU();
    const struct {
        const char *name;
        Operator run;
    } operators[] = {
        {"softmax", [](const TensorPtr &x, const TensorPtr &) { return x->Softmax(-1); }},
        {"log-softmax", [](const TensorPtr &x, const TensorPtr &) { return x->LogSoftmax(-1); }},
        {"softmax of columns", [](const TensorPtr &x, const TensorPtr &) { return x->Softmax(0); }},
        {"layer norm",
         [](const TensorPtr &x, const TensorPtr &w) { return nn::function::LayerNorm(x, {x->Dim(1)}, w, w); }},
        {"RMS norm", [](const TensorPtr &x, const TensorPtr &w) { return nn::function::RmsNorm(x, w); }},
        {"cross-entropy",
         [](const TensorPtr &x, const TensorPtr &) {
             const auto labels = Tensor::Arange(0, x->Dim(0))->To(x->GetDevice());
             return nn::function::CrossEntropy(x, labels);
         }},
    };
    for (const auto &[name, run] : operators) {
        for (const int64_t length : {1023, 1024, 1025, 5000}) {
            for (const DataType dtype : {DataType::kFLOAT32, DataType::kFLOAT64, DataType::kBFLOAT16}) {
                SCOPED_TRACE(std::string(name) + " of " + std::to_string(length) + ", " + ToString(dtype));
                const Values on_gpu = RunOn(test::Gpu(), run, 3, length, dtype);
                const Values on_cpu = RunOn(Device(), run, 3, length, dtype);
                const double tolerance = dtype == DataType::kFLOAT32   ? 2e-5
                                         : dtype == DataType::kFLOAT64 ? 1e-12
                                                                       : 2e-2;
                ExpectNear(on_gpu.output, on_cpu.output, tolerance);
                ExpectNear(on_gpu.grad, on_cpu.grad, tolerance);
                ExpectNear(on_gpu.grad_weight, on_cpu.grad_weight, tolerance);
            }
        }
    }
}

}  // namespace
}  // namespace infini_train
