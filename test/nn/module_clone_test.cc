#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/nn/modules/activations.h"
#include "infini_train/include/nn/modules/container.h"
#include "infini_train/include/nn/modules/convolution.h"
#include "infini_train/include/nn/modules/dropout.h"
#include "infini_train/include/nn/modules/flatten.h"
#include "infini_train/include/nn/modules/linear.h"
#include "infini_train/include/nn/modules/loss.h"
#include "infini_train/include/nn/modules/normalization.h"
#include "infini_train/include/nn/modules/pooling.h"
#include "infini_train/include/nn/modules/sparse.h"
#include "infini_train/include/tensor.h"

#include "test/support/modules.h"
#include "test/support/tensors.h"

namespace infini_train {
namespace {

using test::Floats;
using test::Of;
using test::Thrown;
using test::Values;

TEST(CloneTest, HasTensorsOfItsOwn) {
    const auto linear = std::make_shared<nn::Linear>(2, 2);
    linear->Eval();
    linear->parameter("bias")->set_requires_grad(false);
    const auto copy = linear->Clone();
    EXPECT_NE(std::dynamic_pointer_cast<nn::Linear>(copy), nullptr);
    EXPECT_FALSE(copy->is_training());
    EXPECT_TRUE(copy->parameter("weight")->requires_grad());
    EXPECT_FALSE(copy->parameter("bias")->requires_grad());
    EXPECT_NE(copy->parameter("weight"), linear->parameter("weight"));
    const auto before = Values(linear->parameter("weight"));
    EXPECT_EQ(Values(copy->parameter("weight")), before);
    copy->parameter("weight")->Detach()->Fill_(3);
    EXPECT_EQ(Values(linear->parameter("weight")), before);

    (*copy)({Of({1, 1}, {1, 2})})[0]->Sum()->Backward();
    EXPECT_NE(copy->parameter("weight")->grad(), nullptr);
    EXPECT_EQ(linear->parameter("weight")->grad(), nullptr);
}

TEST(CloneTest, EveryLayerCanBeCloned) {
    const auto net = std::make_shared<nn::Sequential>(
        std::make_shared<nn::Linear>(2, 2), std::make_shared<nn::Conv2d>(1, 1, 3),
        std::make_shared<nn::Embedding>(3, 2), std::make_shared<nn::LayerNorm>(2), std::make_shared<nn::Dropout>(),
        std::make_shared<nn::Relu>(), std::make_shared<nn::Sigmoid>(), std::make_shared<nn::Tanh>(),
        std::make_shared<nn::Silu>(), std::make_shared<nn::Gelu>(true), std::make_shared<nn::NewGELU>(),
        std::make_shared<nn::Softmax>(1), std::make_shared<nn::LogSoftmax>(0), std::make_shared<nn::MaxPool2d>(2),
        std::make_shared<nn::AvgPool2d>(3), std::make_shared<nn::Flatten>(0), std::make_shared<nn::CrossEntropyLoss>(),
        std::make_shared<nn::MSELoss>(), std::make_shared<nn::ModuleList>(), std::make_shared<nn::ModuleDict>());
    EXPECT_EQ(net->Clone()->ToString(), net->ToString());
    EXPECT_EQ(net->Clone()->StateDict().size(), net->StateDict().size());
}

TEST(CloneTest, KeepsTiesAmongItsOwnTensors) {
    const auto first = std::make_shared<nn::Linear>(2, 2), second = std::make_shared<nn::Linear>(2, 2);
    *second->mutable_parameter("weight") = first->parameter("weight");
    const auto copy = nn::Sequential(first, second).Clone();
    EXPECT_EQ(copy->module("0")->parameter("weight"), copy->module("1")->parameter("weight"));
    EXPECT_NE(copy->module("0")->parameter("weight"), first->parameter("weight"));
    EXPECT_EQ(copy->Parameters().size(), 3U);
}

TEST(CloneTest, KeepsAModuleThatIsRegisteredTwiceOne) {
    const auto shared = std::make_shared<nn::Linear>(2, 2);
    const auto inner = std::make_shared<nn::Sequential>(shared);
    const auto copy = nn::Sequential(shared, std::make_shared<nn::Relu>(), shared, inner).Clone();
    EXPECT_EQ(copy->module("0"), copy->module("2"));
    EXPECT_EQ(copy->module("0"), copy->module("3.0"));
    EXPECT_NE(copy->module("0"), shared);
    EXPECT_EQ(copy->NamedModules().size(), 4U);
    // A hook on it works wherever it is called.
    int calls = 0;
    const auto handle = copy->module("2")->RegisterForwardPreHook([&](nn::Module *, const TensorList &) { ++calls; });
    (*copy)({Of({1, 2}, {1, 2})});
    EXPECT_EQ(calls, 3);
}

TEST(CloneTest, HasTheSameHooksAndIsGivenToThem) {
    auto linear = std::make_shared<nn::Linear>(1, 1);
    nn::Module *seen = nullptr;
    const auto handle = linear->RegisterForwardPreHook([&](nn::Module *module, const TensorList &) { seen = module; });
    const auto copy = linear->Clone();
    const auto x = Of({1}, {1, 1});
    (*copy)({x});
    EXPECT_EQ(seen, copy.get());
    handle->Remove();
    seen = nullptr;
    (*linear)({x});
    EXPECT_EQ(seen, nullptr);
    // New hooks of one are none of the other's.
    const auto added = copy->RegisterForwardPreHook([&](nn::Module *module, const TensorList &) { seen = module; });
    (*linear)({x});
    EXPECT_EQ(seen, nullptr);
}

TEST(CloneTest, CopiesBuffers) {
    class Counter : public nn::CloneableModule<Counter> {
    public:
        Counter() : CloneableModule("Counter") { RegisterBuffer("count", Of({0})); }
        TensorList Forward(const TensorList &inputs) override {
            buffer("count")->Add_(1);
            return inputs;
        }
    };
    auto counter = std::make_shared<Counter>();
    (*counter)({});
    auto copy = counter->Clone();
    (*copy)({});
    EXPECT_EQ(Values(copy->buffer("count")), (Floats{2}));
    EXPECT_EQ(Values(counter->buffer("count")), (Floats{1}));
}

TEST(CloneTest, OutlivesTheOriginal) {
    auto net = std::make_shared<nn::Sequential>(std::make_shared<nn::Linear>(2, 1), std::make_shared<nn::Relu>());
    const auto copy = net->Clone();
    net.reset();
    EXPECT_EQ(copy->module("0")->path(), "0");
    EXPECT_EQ((*copy)({Of({1, 2}, {1, 2})})[0]->NumElements(), 1);
}

TEST(CloneTest, RefusesWhatCannotBeCloned) {
    const auto lambda = test::MakeModule([](const TensorList &x) { return x; });
    const std::string expected = "this class can't be cloned; derive it from CloneableModule or override CloneImpl";
    EXPECT_EQ(Thrown<NotImplementedError>([&] { lambda->Clone(); }), "Lambda: " + expected);
    const auto net = std::make_shared<nn::Sequential>(std::make_shared<nn::Relu>(), lambda);
    EXPECT_EQ(Thrown<NotImplementedError>([&] { net->Clone(); }), "1 (Lambda): " + expected);
}

}  // namespace
}  // namespace infini_train
