#include "infini_train/include/nn/modules/container.h"

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/nn/modules/activations.h"
#include "infini_train/include/nn/modules/linear.h"
#include "infini_train/include/tensor.h"

#include "test/support/modules.h"
#include "test/support/tensors.h"

namespace infini_train {
namespace {

using test::Contains;
using test::Floats;
using test::MakeModule;
using test::Of;
using test::Thrown;

std::shared_ptr<nn::Module> Scale(float factor) {
    return MakeModule([factor](const TensorList &x) { return TensorList{x[0]->Mul(factor)}; }, "Scale");
}

TEST(SequentialTest, RunsModulesInOrder) {
    const auto add = MakeModule([](const TensorList &x) { return TensorList{x[0]->Add(1)}; });
    nn::Sequential net(Scale(3), add, Scale(10));
    EXPECT_EQ(net({Of({2})})[0]->ToVector<float>(), (Floats{70}));
    EXPECT_EQ(net.size(), 3U);
    EXPECT_EQ(net.NamedChildren()[2].first, "2");

    nn::Sequential from_vector(std::vector<std::shared_ptr<nn::Module>>{add, add});
    EXPECT_EQ(from_vector({Of({2})})[0]->ToVector<float>(), (Floats{4}));
}

TEST(SequentialTest, PassesSeveralTensorsAndLeavesTheCallersListAlone) {
    const auto swap = MakeModule([](const TensorList &x) { return TensorList{x[1], x[0]}; });
    nn::Sequential net(swap, MakeModule([](const TensorList &x) { return TensorList{x[0]->Sub(x[1])}; }));
    const TensorList inputs = {Of({1}), Of({5})};
    const TensorList before = inputs;
    EXPECT_EQ(net(inputs)[0]->ToVector<float>(), (Floats{4}));
    EXPECT_EQ(inputs, before);
    EXPECT_EQ(inputs[0]->ToVector<float>(), (Floats{1}));
}

TEST(SequentialTest, OfNothingReturnsItsInputs) {
    const TensorList inputs = {Of({1}), Of({2})};
    EXPECT_EQ(nn::Sequential()(inputs), inputs);
}

TEST(SequentialTest, AppendsAndFinds) {
    nn::Sequential net;
    EXPECT_TRUE(net.empty());
    const auto first = Scale(2), second = Scale(5);
    net.Append(first);
    net.Append(second);
    EXPECT_EQ(net[0], first);
    EXPECT_EQ(net[-1], second);
    EXPECT_EQ(net({Of({1})})[0]->ToVector<float>(), (Floats{10}));
    EXPECT_EQ(Thrown<IndexError>([&] { net[2]; }), "Sequential: no module 2; there are 2");
    EXPECT_EQ(Thrown<IndexError>([&] { net[-3]; }), "Sequential: no module -3; there are 2");
    EXPECT_EQ(Thrown<ValueError>([&] { net.Append(nullptr); }),
              "Sequential: expected a module at position 2, got null");
    std::vector<std::shared_ptr<nn::Module>> seen(net.begin(), net.end());
    EXPECT_EQ(seen, (std::vector<std::shared_ptr<nn::Module>>{first, second}));
}

TEST(SequentialTest, RunsTheHooksOfItsModules) {
    const auto first = Scale(2);
    auto net = std::make_shared<nn::Sequential>(first, Scale(5));
    const auto handle = first->RegisterForwardPostHook(
        [](nn::Module *, const TensorList &, const TensorList &y) { return TensorList{y[0]->Add(1)}; });
    EXPECT_EQ((*net)({Of({1})})[0]->ToVector<float>(), (Floats{15}));
}

TEST(ModuleListTest, HoldsModulesForOthersToCall) {
    auto list = std::make_shared<nn::ModuleList>(std::vector<std::shared_ptr<nn::Module>>{Scale(2)});
    list->Extend({Scale(3), std::make_shared<nn::Linear>(2, 2)});
    EXPECT_EQ(list->size(), 3U);
    EXPECT_EQ(list->NamedParameters()[0].first, "2.weight");
    float product = 1;
    for (const auto &module : *list) {
        product *= module->type() == "Scale" ? (*module)({Of({1})})[0]->Item<float>() : 1;
    }
    EXPECT_EQ(product, 6);
    const std::string error = Thrown<NotImplementedError>([&] { (*list)({Of({1})}); });
    EXPECT_TRUE(Contains(error, "ModuleList: a list can't be called; call its modules one by one")) << error;
}

TEST(ModuleDictTest, KeepsTheOrderOfInsertion) {
    nn::ModuleDict dict({{"up", Scale(2)}, {"down", Scale(0.5F)}});
    dict.Insert("again", dict["up"]);
    EXPECT_EQ(dict.size(), 3U);
    std::string names;
    for (const auto &[name, module] : dict.NamedChildren()) {
        names += name + " ";
    }
    EXPECT_EQ(names, "up down again ");
    EXPECT_TRUE(dict.Contains("down"));
    EXPECT_FALSE(dict.Contains("left"));
    EXPECT_EQ((*dict["down"])({Of({8})})[0]->ToVector<float>(), (Floats{4}));
    EXPECT_EQ(Thrown<IndexError>([&] { dict["left"]; }), "ModuleDict: no module 'left'; there are: up, down, again");
    EXPECT_EQ(Thrown<ValueError>([&] { dict.Insert("up", Scale(1)); }),
              "ModuleDict: the name 'up' of a module is taken");
    EXPECT_EQ(Thrown<ValueError>([&] { dict.Insert("none", nullptr); }),
              "ModuleDict: expected a module under the name 'none', got null");
    const std::string error = Thrown<NotImplementedError>([&] { dict({Of({1})}); });
    EXPECT_TRUE(Contains(error, "ModuleDict: a dict can't be called; call one of its modules")) << error;
}

TEST(ModuleDictTest, SortsWhatHasNoOrder) {
    const std::unordered_map<std::string, std::shared_ptr<nn::Module>> modules = {
        {"c", Scale(1)}, {"a", Scale(2)}, {"b", Scale(3)}};
    const nn::ModuleDict dict(modules);
    std::string names;
    for (const auto &[name, module] : dict.NamedChildren()) {
        names += name;
    }
    EXPECT_EQ(names, "abc");
    const std::map<std::string, std::shared_ptr<nn::Relu>> relus = {{"y", std::make_shared<nn::Relu>()}};
    EXPECT_EQ(nn::ModuleDict(relus).NamedChildren()[0].second, relus.at("y"));
}

TEST(ContainersTest, PrintAsATree) {
    nn::Sequential net(std::make_shared<nn::Linear>(2, 3),
                       std::make_shared<nn::Sequential>(std::make_shared<nn::Relu>(), std::make_shared<nn::Tanh>()),
                       std::make_shared<nn::Linear>(3, 1, false));
    EXPECT_EQ(net.ToString(),
              "Sequential(\n"
              "  (0): Linear(in_features=2, out_features=3, bias=true)\n"
              "  (1): Sequential(\n"
              "    (0): Relu()\n"
              "    (1): Tanh()\n"
              "  )\n"
              "  (2): Linear(in_features=3, out_features=1, bias=false)\n"
              ")");
}

}  // namespace
}  // namespace infini_train
