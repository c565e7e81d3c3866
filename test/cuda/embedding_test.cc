// The gradient of an embedding on a GPU is the CPU's, bit for bit, however often a row is looked up.

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/core/generator.h"
#include "infini_train/include/nn/functional.h"
#include "infini_train/include/tensor.h"

#include "test/cuda/gpu.h"

namespace infini_train {
namespace {

std::vector<float> GradientOn(Device device, const TensorPtr &index, int64_t rows, int64_t columns) {
    ManualSeed(3);
    const auto weight = Tensor::Randn({rows, columns})->To(device);
    weight->set_requires_grad(true);
    const auto gradient = Tensor::Randn({index->NumElements(), columns})->To(device);
    nn::function::Embedding(index->To(device), weight)->Backward(gradient);
    return weight->grad()->ToVector<float>();
}

TEST(EmbeddingOnGpu, AddsInTheOrderOfTheLookups) {
    INFINI_TRAIN_NEEDS_GPU();
    ManualSeed(7);
    const struct {
        const char *what;
        TensorPtr index;
        int64_t rows;
    } cases[] = {
        {"each a few times", Tensor::RandInt(0, 50, {400}), 50},
        {"one row for most, as when padding", Tensor::RandInt(-900, 7, {1000})->Clamp(0), 7},
        {"one row for all", Tensor::Zeros({700}, DataType::kINT64), 3},
        {"a single lookup", Tensor::FromVector<int64_t>({4}), 9},
    };
    for (const auto &[what, index, rows] : cases) {
        SCOPED_TRACE(what);
        EXPECT_EQ(GradientOn(test::Gpu(), index, rows, 5), GradientOn(Device(), index, rows, 5));
    }
}

}  // namespace
}  // namespace infini_train
