#include "infini_train/include/utils/model_summary.h"

#include <memory>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/core/generator.h"
#include "infini_train/include/nn/modules/activations.h"
#include "infini_train/include/nn/modules/container.h"
#include "infini_train/include/nn/modules/convolution.h"
#include "infini_train/include/nn/modules/dropout.h"
#include "infini_train/include/nn/modules/flatten.h"
#include "infini_train/include/nn/modules/linear.h"
#include "infini_train/include/nn/modules/pooling.h"
#include "infini_train/include/nn/modules/sparse.h"

#include "test/support/modules.h"
#include "test/support/tensors.h"

namespace infini_train::utils {
namespace {

using test::Contains;
using test::MakeModule;
using test::Thrown;
using Dims = std::vector<int64_t>;

std::shared_ptr<nn::Sequential> LeNet() {
    using namespace nn;
    return std::make_shared<Sequential>(
        std::make_shared<Conv2d>(1, 6, 5, 1, 2), std::make_shared<Relu>(), std::make_shared<MaxPool2d>(2),
        std::make_shared<Conv2d>(6, 16, 5), std::make_shared<Relu>(), std::make_shared<MaxPool2d>(2),
        std::make_shared<Flatten>(), std::make_shared<Linear>(400, 120), std::make_shared<Relu>(),
        std::make_shared<Linear>(120, 84), std::make_shared<Relu>(), std::make_shared<Linear>(84, 10));
}

const ModuleSummary &Row(const ModelSummary &summary, const std::string &path) {
    for (const ModuleSummary &row : summary.rows()) {
        if (row.path == path) {
            return row;
        }
    }
    throw IndexError("no row " + path);
}

// PyTorch 2.15: 61,706 parameters, and its counter gives 53,314,560 FLOPs for the products of the forward. To those
// come the biases, an addition for each output of a convolution or linear layer, a comparison for each element of a
// Relu, and three for each 2 x 2 window.
TEST(ModelSummary, LeNetAgainstPyTorch) {
    const ModelSummary summary(*LeNet(), {64, 1, 28, 28});
    const ModuleSummary &total = summary.total();
    EXPECT_EQ(total.parameters, 61706);
    EXPECT_EQ(total.trainable_parameters, 61706);
    EXPECT_EQ(total.parameter_bytes, 4 * 61706);
    EXPECT_EQ(total.gradient_bytes, 4 * 61706);
    constexpr int64_t kConv1 = 6 * 28 * 28, kConv2 = 16 * 10 * 10, kPool1 = kConv1 / 4, kPool2 = kConv2 / 4;
    constexpr int64_t kBiases = kConv1 + kConv2 + 120 + 84 + 10;
    constexpr int64_t kRelus = kConv1 + kConv2 + 120 + 84;
    EXPECT_EQ(total.flops, 53314560 + 64 * (kBiases + kRelus + 3 * (kPool1 + kPool2)));
    // Each of those operators gives a tensor of its own; Flatten gives a view.
    EXPECT_EQ(total.activation_bytes, 4 * 64 * (kBiases + kRelus + kPool1 + kPool2));
    EXPECT_EQ(summary.input_bytes(), 4 * 64 * 28 * 28);
    EXPECT_TRUE(summary.uncounted().empty());

    ASSERT_EQ(summary.rows().size(), 13U);
    EXPECT_EQ(total.type, "Sequential");
    EXPECT_EQ(total.path, "");
    EXPECT_EQ(total.output_dims, (std::vector<Dims>{{64, 10}}));
    const ModuleSummary &conv = Row(summary, "3");
    EXPECT_EQ(conv.type, "Conv2d");
    EXPECT_EQ(conv.depth, 1);
    EXPECT_EQ(conv.calls, 1);
    EXPECT_EQ(conv.output_dims, (std::vector<Dims>{{64, 16, 10, 10}}));
    EXPECT_EQ(conv.parameters, 16 * 6 * 25 + 16);
    EXPECT_EQ(conv.flops, 64 * kConv2 * (2 * 6 * 25 + 1));
    EXPECT_EQ(conv.activation_bytes, 4 * 64 * kConv2);
    EXPECT_EQ(Row(summary, "6").activation_bytes, 0);
}

TEST(ModelSummary, ShowsATable) {
    const auto net = std::make_shared<nn::Sequential>(std::make_shared<nn::Linear>(784, 100),
                                                      std::make_shared<nn::Sequential>(std::make_shared<nn::Relu>()),
                                                      std::make_shared<nn::Linear>(100, 10));
    const ModelSummary summary(*net, {64, 784});
    EXPECT_EQ(summary.ToString(),
              "+------------------+-----------+------------+-------------+-------+\n"
              "| module           | output    | parameters | activations | FLOPs |\n"
              "+------------------+-----------+------------+-------------+-------+\n"
              "| Sequential       | (64, 10)  |     79,510 |    52.5 KiB | 10.2M |\n"
              "| |-0 (Linear)     | (64, 100) |     78,500 |    25.0 KiB | 10.0M |\n"
              "| |-1 (Sequential) | (64, 100) |            |    25.0 KiB | 6.40k |\n"
              "| | `-0 (Relu)     | (64, 100) |            |    25.0 KiB | 6.40k |\n"
              "| `-2 (Linear)     | (64, 10)  |      1,010 |    2.50 KiB |  129k |\n"
              "+------------------+-----------+------------+-------------+-------+\n"
              "parameters   79,510, 79,510 trainable\n"
              "memory       parameters 311 KiB, gradients 311 KiB, buffers 0 B, activations 52.5 KiB, inputs 196 KiB\n"
              "forward      10,176,640 FLOPs\n");
    EXPECT_FALSE(Contains(summary.ToString({}, 1), "Relu"));
    Terminal terminal;
    terminal.utf8 = true;
    EXPECT_TRUE(Contains(summary.ToString(terminal), "│ └─0 (Relu)"));
}

// The embedding and the output layer have one weight, as in GPT-2.
TEST(ModelSummary, TiedParametersCountOnce) {
    const auto embedding = std::make_shared<nn::Embedding>(50, 8);
    const auto head = std::make_shared<nn::Linear>(8, 50, /*bias=*/false);
    *head->mutable_parameter("weight") = embedding->parameter("weight");
    const auto net = std::make_shared<nn::Sequential>(embedding, head);
    const ModelSummary summary(*net, {2, 3}, DataType::kINT64);
    EXPECT_EQ(summary.total().parameters, 400);
    EXPECT_EQ(Row(summary, "0").tied_parameters, 0);
    EXPECT_EQ(Row(summary, "1").parameters, 400);
    EXPECT_EQ(Row(summary, "1").tied_parameters, 400);
    EXPECT_TRUE(Contains(summary.ToString(), "400 tied"));
    EXPECT_EQ(summary.total().output_dims, (std::vector<Dims>{{2, 3, 50}}));
}

TEST(ModelSummary, FrozenParametersHaveNoGradient) {
    const auto net =
        std::make_shared<nn::Sequential>(std::make_shared<nn::Linear>(4, 5), std::make_shared<nn::Linear>(5, 2));
    net->module("0")->RequiresGrad(false);
    const ModelSummary summary(*net, {1, 4});
    EXPECT_EQ(summary.total().parameters, 25 + 12);
    EXPECT_EQ(summary.total().trainable_parameters, 12);
    EXPECT_EQ(summary.total().gradient_bytes, 48);
}

TEST(ModelSummary, ModulesCalledTwiceSharedAndNotAtAll) {
    const auto twice = std::make_shared<nn::Linear>(3, 3);
    const auto idle = std::make_shared<nn::Linear>(3, 7);
    const auto holder = MakeModule([twice](const TensorList &inputs) { return (*twice)((*twice)(inputs)); }, "Twice");
    holder->RegisterModule("layer", twice);
    const auto root = MakeModule([holder](const TensorList &inputs) { return (*holder)(inputs); }, "Root");
    root->RegisterModule("holder", holder);
    root->RegisterModule("again", twice);
    root->RegisterModule("idle", idle);
    const ModelSummary summary(*root, {2, 3});
    EXPECT_EQ(Row(summary, "holder.layer").calls, 2);
    EXPECT_EQ(Row(summary, "holder.layer").flops, 2 * 2 * 3 * 7);  // 2 rows, 3 outputs of 3 multiply-adds and a bias
    EXPECT_TRUE(Row(summary, "again").is_shared);
    EXPECT_EQ(Row(summary, "again").same_as, "holder.layer");
    EXPECT_EQ(Row(summary, "idle").calls, 0);
    EXPECT_EQ(summary.total().parameters, 12 + 28);
    EXPECT_EQ(summary.total().flops, 84);
    EXPECT_TRUE(Contains(summary.ToString(), "(2, 3) x2"));
    EXPECT_TRUE(Contains(summary.ToString(), "as holder.layer"));
    EXPECT_TRUE(Contains(summary.ToString(), "not called"));
}

// A function of a user's that is made of operators: their sum. One that isn't: named.
class Cube : public autograd::Function {
public:
    Cube() : Function("SummaryTestCube") {}
    TensorList Forward(const TensorList &inputs) override { return {inputs[0]->Square()->Mul(inputs[0])}; }
    TensorList Backward(const TensorList &grads) override { return grads; }
};
class Opaque : public autograd::Function {
public:
    Opaque() : Function("SummaryTestOpaque") {}
    TensorList Forward(const TensorList &inputs) override {
        return {Tensor::FromVector<float>({1, 2, 3}, inputs[0]->Dims())};
    }
    TensorList Backward(const TensorList &grads) override { return grads; }
};

TEST(ModelSummary, FunctionsOfUsers) {
    const auto net = MakeModule([](const TensorList &inputs) {
        return std::make_shared<Opaque>()->Apply(std::make_shared<Cube>()->Apply(inputs));
    });
    const ModelSummary summary(*net, TensorList{test::Of({1, 2, 3})});
    EXPECT_EQ(summary.total().flops, 6);
    EXPECT_EQ(summary.total().activation_bytes, 3 * 12);  // the square, the cube once, and the other's
    EXPECT_EQ(summary.uncounted(), (std::vector<std::string>{"SummaryTestOpaque"}));
    EXPECT_TRUE(Contains(summary.ToString(), "not counted  SummaryTestOpaque"));
}

TEST(ModelSummary, LeavesEverythingAsItWas) {
    const auto buffer = test::Of({1, 2});
    const auto counts = MakeModule([buffer](const TensorList &inputs) {
        buffer->Add_(1);
        return inputs;
    });
    counts->RegisterBuffer("count", buffer);
    const auto net = std::make_shared<nn::Sequential>(std::make_shared<nn::Linear>(4, 4),
                                                      std::make_shared<nn::Dropout>(0.5), counts);
    net->module("1")->Eval();
    net->module("0")->Train();
    ManualSeed(7);
    const auto state = DefaultGenerator().GetState();
    const ModelSummary evaluated(*net, {3, 4});
    net->module("1")->Train();
    const ModelSummary trained(*net, {3, 4});
    EXPECT_EQ(DefaultGenerator().GetState(), state);
    EXPECT_EQ(test::Values(buffer), (test::Floats{1, 2}));
    EXPECT_TRUE(net->module("0")->is_training());
    EXPECT_EQ(net->module("0")->parameter("weight")->grad(), nullptr);
    // Dropout costs something in training only.
    EXPECT_EQ(trained.total().flops - evaluated.total().flops, 12);
}

TEST(ModelSummary, WhatTheForwardThrowsPassesThroughAndNothingIsLeft) {
    const auto net =
        std::make_shared<nn::Sequential>(std::make_shared<nn::Dropout>(0.5), std::make_shared<nn::Linear>(4, 5));
    ManualSeed(3);
    const auto state = DefaultGenerator().GetState();
    EXPECT_TRUE(Contains(Thrown<ShapeError>([&] { ModelSummary(*net, Dims{2, 3}); }), "Linear"));
    EXPECT_EQ(DefaultGenerator().GetState(), state);
    auto x = Tensor::Ones({2, 4})->RequiresGrad();
    EXPECT_NE((*net)({x})[0]->grad_fn(), nullptr);  // grad mode is back
}

}  // namespace
}  // namespace infini_train::utils
