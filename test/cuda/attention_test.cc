// Attention on a GPU and on the CPU with heads as wide, and caches as long, as the operator table has none.

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/core/generator.h"
#include "infini_train/include/nn/functional.h"
#include "infini_train/include/tensor.h"

#include "test/cuda/gpu.h"

namespace infini_train {
namespace {

struct Shape {
    const char *what;
    int64_t heads, key_heads, queries, keys, features, value_features;
    double dropout;
    DataType dtype;
};

std::vector<std::vector<double>> RunOn(Device device, const Shape &s) {
    ManualSeed(6);
    const auto make = [&](int64_t heads, int64_t length, int64_t width) {
        auto tensor = Tensor::Randn({1, heads, length, width})->To(s.dtype)->To(device);
        tensor->set_requires_grad(true);
        return tensor;
    };
    const auto q = make(s.heads, s.queries, s.features), k = make(s.key_heads, s.keys, s.features);
    const auto v = make(s.key_heads, s.keys, s.value_features);
    const auto y =
        nn::function::ScaledDotProductAttention(q, k, v, {.dropout_p = s.dropout, .is_causal = s.queries > 1});
    y->Backward(Tensor::Randn(y->Dims())->To(s.dtype)->To(device));
    return {y->Detach()->ToVector<double>(), q->grad()->ToVector<double>(), k->grad()->ToVector<double>(),
            v->grad()->ToVector<double>()};
}

TEST(AttentionOnGpu, WideHeadsAndLongCaches) {
    INFINI_TRAIN_NEEDS_GPU();
    const Shape shapes[] = {
        {"heads of GPT-2", 2, 2, 45, 45, 64, 64, 0, DataType::kFLOAT32},
        {"heads of LLaMA, grouped", 4, 2, 33, 40, 128, 128, 0, DataType::kBFLOAT16},
        {"one query and a long cache", 2, 1, 1, 1500, 32, 32, 0, DataType::kFLOAT32},
        {"tiles of 16", 1, 1, 20, 20, 300, 260, 0, DataType::kFLOAT64},
        {"tiles of 8", 1, 1, 20, 20, 700, 500, 0, DataType::kFLOAT32},
        {"dropout over several tiles", 2, 2, 37, 71, 16, 8, 0.3, DataType::kFLOAT32},
    };
    const char *const parts[] = {"output", "gradient of the query", "gradient of the key", "gradient of the value"};
    for (const Shape &shape : shapes) {
        SCOPED_TRACE(shape.what);
        const auto on_gpu = RunOn(test::Gpu(), shape), on_cpu = RunOn(Device(), shape);
        const double tolerance = shape.dtype == DataType::kFLOAT64   ? 1e-12
                                 : shape.dtype == DataType::kFLOAT32 ? 2e-5
                                                                     : 2e-2;
        for (size_t part = 0; part < on_cpu.size(); ++part) {
            ASSERT_EQ(on_gpu[part].size(), on_cpu[part].size());
            for (size_t i = 0; i < on_cpu[part].size(); ++i) {
                ASSERT_NEAR(on_gpu[part][i], on_cpu[part][i], tolerance * (1 + std::abs(on_cpu[part][i])))
                    << parts[part] << ", element " << i;
            }
        }
    }
}

// PyTorch's rule for a mask of bools, too: it is added as 0 and -infinity, so it doesn't hide what isn't a number.
TEST(AttentionOnGpu, AMaskDoesNotHideNaN) {
    INFINI_TRAIN_NEEDS_GPU();
    const float nan = std::nanf("");
    const auto q = Tensor::Ones({1, 1, 1, 2}), v = Tensor::FromVector<float>({1, 2, 3, 4}, {{1, 1, 2, 2}});
    const auto mask = Tensor::FromVector<bool>({true, false}, {{1, 1, 1, 2}});
    for (const Device device : {Device(), test::Gpu()}) {
        SCOPED_TRACE(device.ToString());
        const auto attend = [&](float hidden) {
            const auto k = Tensor::FromVector<float>({0, 0, hidden, 0}, {{1, 1, 2, 2}})->To(device);
            return nn::function::ScaledDotProductAttention(q->To(device), k, v->To(device), {.mask = mask->To(device)})
                ->ToVector<float>();
        };
        EXPECT_EQ(attend(5), (std::vector<float>{1, 2}));
        for (const float value : attend(nan)) {
            EXPECT_TRUE(std::isnan(value)) << value;
        }
    }
}

}  // namespace
}  // namespace infini_train
