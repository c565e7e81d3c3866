#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/nn/modules/container.h"
#include "infini_train/include/nn/modules/linear.h"
#include "infini_train/include/nn/modules/module.h"
#include "infini_train/include/tensor.h"

#include "test/support/modules.h"
#include "test/support/tensors.h"

namespace infini_train {
namespace {

using test::Floats;
using test::Leaf;
using test::Of;
using test::Thrown;
using test::Values;

std::shared_ptr<test::Lambda> Net() {
    const auto net = test::MakeModule([](const TensorList &x) { return x; }, "Net");
    net->RegisterParameter("scale", Leaf({1, 2}));
    net->RegisterBuffer("mean", Of({3, 4}));
    net->RegisterBuffer("cache", Of({0}), /*persistent=*/false);
    net->RegisterModule("fc", std::make_shared<nn::Linear>(2, 1));
    return net;
}

TEST(StateDictTest, NamesEverythingPersistentAndSharesMemory) {
    const auto net = Net();
    const auto state = net->StateDict();
    std::string names;
    for (const auto &[name, tensor] : state) {
        names += name + " ";
        EXPECT_FALSE(tensor->requires_grad());
    }
    EXPECT_EQ(names, "fc.bias fc.weight mean scale ");
    state.at("scale")->Fill_(9);
    EXPECT_EQ(Values(net->parameter("scale")), (Floats{9, 9}));
}

TEST(StateDictTest, CopiesValuesIntoTheSameTensors) {
    const auto from = Net(), to = Net();
    from->parameter("scale")->Detach()->Fill_(7);
    const auto weight = to->module("fc")->parameter("weight");
    const auto version = weight->Version();
    const auto report = to->LoadStateDict(from->StateDict());
    EXPECT_TRUE(report.missing.empty() && report.unexpected.empty());
    EXPECT_EQ(Values(to->parameter("scale")), (Floats{7, 7}));
    EXPECT_EQ(to->module("fc")->parameter("weight"), weight);
    EXPECT_EQ(Values(weight), Values(from->module("fc")->parameter("weight")));
    EXPECT_GT(weight->Version(), version);
    EXPECT_TRUE(weight->requires_grad() && weight->is_leaf());
    from->parameter("scale")->Detach()->Fill_(8);
    EXPECT_EQ(Values(to->parameter("scale")), (Floats{7, 7}));
}

TEST(StateDictTest, ReportsEverythingThatDoesNotFitAndChangesNothing) {
    const auto net = Net();
    const auto before = Values(net->module("fc")->parameter("weight"));
    nn::StateDict state = {{"fc.weight", Of({1, 2}, {1, 2})},
                           {"scale", Of({1, 2, 3})},
                           {"mean", nullptr},
                           {"fc.gamma", Of({1})},
                           {"extra", Of({1})}};
    EXPECT_EQ(Thrown<ValueError>([&] { net->LoadStateDict(state); }),
              "Net: the state dict doesn't fit:\n"
              "  missing: fc.bias, mean\n"
              "  unexpected: extra, fc.gamma\n"
              "  of other dims: scale (expected (2,), got (3,))");
    EXPECT_EQ(Values(net->module("fc")->parameter("weight")), before);

    // Other dims are an error even if the rest doesn't matter.
    EXPECT_NE(Thrown<ValueError>([&] { net->LoadStateDict(state, /*strict=*/false); }), "");
    EXPECT_EQ(Values(net->module("fc")->parameter("weight")), before);

    state.erase("scale");
    const auto report = net->LoadStateDict(state, /*strict=*/false);
    EXPECT_EQ(report.missing, (std::vector<std::string>{"fc.bias", "mean", "scale"}));
    EXPECT_EQ(report.unexpected, (std::vector<std::string>{"extra", "fc.gamma"}));
    EXPECT_EQ(Values(net->module("fc")->parameter("weight")), (Floats{1, 2}));
    EXPECT_EQ(Values(net->parameter("scale")), (Floats{1, 2}));
}

TEST(StateDictTest, ConvertsDataTypes) {
    const auto net = Net();
    nn::StateDict state;
    for (const auto &[name, tensor] : net->StateDict()) {
        state[name] = tensor->To(DataType::kFLOAT64)->Add(1);
    }
    net->LoadStateDict(state);
    EXPECT_EQ(Values(net->parameter("scale")), (Floats{2, 3}));
    EXPECT_EQ(net->parameter("scale")->Dtype(), DataType::kFLOAT32);
}

// Two layers that share their weight, and a list of parameters as an optimizer would keep it.
class ToTest : public testing::Test {
protected:
    ToTest() {
        *second_->mutable_parameter("weight") = first_->parameter("weight");
        net_->RegisterBuffer("count", Tensor::FromVector<int64_t>({1LL << 40}));
        net_->RegisterBuffer("mean", Of({0.5F}));
        (*net_)({Of({1, 2}, {1, 2})})[0]->Sum()->Backward();
    }

    const std::shared_ptr<nn::Linear> first_ = std::make_shared<nn::Linear>(2, 2);
    const std::shared_ptr<nn::Linear> second_ = std::make_shared<nn::Linear>(2, 2);
    const std::shared_ptr<test::Lambda> net_ = [this] {
        auto net = test::MakeModule([this](const TensorList &x) { return (*second_)((*first_)(x)); });
        net->RegisterModule("first", first_);
        net->RegisterModule("second", second_);
        return net;
    }();
};

TEST_F(ToTest, KeepsObjectsTiesAndGradients) {
    const TensorList parameters = net_->Parameters();
    ASSERT_EQ(parameters.size(), 3U);
    std::vector<Floats> values, grads;
    for (const auto &parameter : parameters) {
        values.push_back(Values(parameter));
        grads.push_back(Values(parameter->grad()));
    }
    net_->To(DataType::kFLOAT64);
    EXPECT_EQ(net_->Parameters(), parameters);
    EXPECT_EQ(first_->parameter("weight"), second_->parameter("weight"));
    for (size_t i = 0; i < parameters.size(); ++i) {
        EXPECT_EQ(parameters[i]->Dtype(), DataType::kFLOAT64);
        EXPECT_TRUE(parameters[i]->requires_grad() && parameters[i]->is_leaf());
        EXPECT_EQ(Values(parameters[i]), values[i]);
        ASSERT_NE(parameters[i]->grad(), nullptr);
        EXPECT_EQ(parameters[i]->grad()->Dtype(), DataType::kFLOAT64);
        EXPECT_EQ(Values(parameters[i]->grad()), grads[i]);
    }
    // The graph of the next pass ends in the same tensors, whose gradients go on adding up.
    (*net_)({Tensor::FromVector<double>({1, 2}, std::vector<int64_t>{1, 2})})[0]->Sum()->Backward();
    for (size_t i = 0; i < parameters.size(); ++i) {
        for (size_t j = 0; j < grads[i].size(); ++j) {
            EXPECT_NEAR(Values(parameters[i]->grad())[j], 2 * grads[i][j], 1e-5);
        }
    }
    EXPECT_EQ(net_->buffer("mean")->Dtype(), DataType::kFLOAT64);
    EXPECT_EQ(net_->buffer("count")->Dtype(), DataType::kINT64);
    EXPECT_EQ(net_->buffer("count")->Item<int64_t>(), 1LL << 40);
}

TEST_F(ToTest, KeepsHooksOfParameters) {
    int calls = 0;
    const auto handle = first_->parameter("bias")->RegisterHook([&](const TensorPtr &) { ++calls; });
    net_->To(DataType::kFLOAT64);
    (*net_)({Tensor::FromVector<double>({1, 2}, std::vector<int64_t>{1, 2})})[0]->Sum()->Backward();
    EXPECT_EQ(calls, 1);
}

TEST_F(ToTest, RefusesIntegers) {
    EXPECT_EQ(Thrown<DtypeError>([&] { net_->To(DataType::kINT64); }),
              "Module::To: expected a floating-point type, got int64");
    EXPECT_EQ(first_->parameter("weight")->Dtype(), DataType::kFLOAT32);
}

TEST_F(ToTest, TheSameDeviceChangesNothing) {
    const auto weight = first_->parameter("weight");
    const auto values = Values(weight);
    const void *data = weight->DataPtr();
    net_->To(Device());
    EXPECT_EQ(first_->parameter("weight"), weight);
    EXPECT_EQ(weight->DataPtr(), data);
    EXPECT_EQ(Values(weight), values);
    EXPECT_NE(weight->grad(), nullptr);
}

}  // namespace
}  // namespace infini_train
