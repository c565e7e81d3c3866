#include "infini_train/include/nn/modules/module.h"

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/nn/modules/container.h"
#include "infini_train/include/nn/modules/linear.h"
#include "infini_train/include/tensor.h"

#include "test/support/modules.h"
#include "test/support/tensors.h"

namespace infini_train {
namespace {

using test::Lambda;
using test::Leaf;
using test::Of;
using test::Thrown;

std::shared_ptr<Lambda> Holder(const std::string &type = "Holder") {
    return test::MakeModule([](const TensorList &x) { return x; }, type);
}

template <typename Pairs>
std::string NamesOf(const Pairs &pairs) {
    std::string names;
    for (const auto &[name, value] : pairs) {
        names += (names.empty() ? "" : " ") + (name.empty() ? "''" : name);
    }
    return names;
}

TEST(ModuleTest, KeepsTheOrderOfRegistration) {
    const auto root = Holder(), child = Holder();
    root->RegisterParameter("z", Leaf(1));
    root->RegisterBuffer("mean", Of({2}));
    root->RegisterModule("sub", child);
    root->RegisterParameter("a", Leaf(3));
    child->RegisterParameter("w", Leaf(4));
    child->RegisterBuffer("count", Tensor::FromVector<int64_t>({5}), /*persistent=*/false);
    EXPECT_EQ(NamesOf(root->NamedParameters()), "z a sub.w");
    EXPECT_EQ(NamesOf(root->NamedParameters("net")), "net.z net.a net.sub.w");
    EXPECT_EQ(NamesOf(root->NamedBuffers()), "mean sub.count");
    EXPECT_EQ(NamesOf(root->NamedModules()), "'' sub");
    EXPECT_EQ(NamesOf(root->NamedModules("net")), "net net.sub");
    EXPECT_EQ(NamesOf(root->NamedChildren()), "sub");
    EXPECT_EQ(root->Parameters().size(), 3U);
    EXPECT_EQ(root->Parameters()[2], child->parameter("w"));
    EXPECT_EQ(root->Buffers().size(), 2U);
}

TEST(ModuleTest, RefusesNames) {
    const auto root = Holder();
    root->RegisterParameter("w", Leaf(1));
    root->RegisterBuffer("b", Of({1}));
    root->RegisterModule("m", Holder());
    for (const std::string name : {"w", "b", "m"}) {
        EXPECT_EQ(Thrown<ValueError>([&] { root->RegisterParameter(name, Leaf(1)); }),
                  "Holder: the name '" + name + "' of a parameter is taken");
        EXPECT_EQ(Thrown<ValueError>([&] { root->RegisterBuffer(name, Of({1})); }),
                  "Holder: the name '" + name + "' of a buffer is taken");
        EXPECT_EQ(Thrown<ValueError>([&] { root->RegisterModule(name, Holder()); }),
                  "Holder: the name '" + name + "' of a module is taken");
    }
    EXPECT_EQ(Thrown<ValueError>([&] { root->RegisterParameter("a.b", Leaf(1)); }),
              "Holder: expected a name without dots for a parameter, got 'a.b'");
    EXPECT_EQ(Thrown<ValueError>([&] { root->RegisterModule("", Holder()); }),
              "Holder: expected a name without dots for a module, got ''");
    EXPECT_EQ(Thrown<ValueError>([&] { root->RegisterParameter("x", Leaf(1)->Mul(2)); }),
              "Holder: parameter 'x' must be a leaf, it is an output of MulScalar");
    EXPECT_EQ(root->Parameters().size(), 1U);
}

TEST(ModuleTest, NullRegistersNothingToSee) {
    const auto root = Holder();
    EXPECT_EQ(root->RegisterParameter("w", nullptr), nullptr);
    EXPECT_EQ(root->RegisterBuffer("b", nullptr), nullptr);
    EXPECT_EQ(root->RegisterModule("m", std::shared_ptr<nn::Module>()), nullptr);
    EXPECT_FALSE(root->has_parameter("w"));
    EXPECT_TRUE(root->Parameters().empty() && root->Buffers().empty() && root->NamedChildren().empty());
    EXPECT_TRUE(root->StateDict().empty());
    // The name of the parameter is kept for one to come.
    *root->mutable_parameter("w") = Leaf(1);
    EXPECT_EQ(NamesOf(root->NamedParameters()), "w");
}

TEST(ModuleTest, RefusesCycles) {
    const auto a = Holder("A"), b = Holder("B"), c = Holder("C");
    a->RegisterModule("b", b);
    b->RegisterModule("c", c);
    EXPECT_EQ(Thrown<ValueError>([&] { a->RegisterModule("self", a); }),
              "A: the module 'self' can't be registered, it contains this one");
    EXPECT_EQ(Thrown<ValueError>([&] { c->RegisterModule("back", a); }),
              "C: the module 'back' can't be registered, it contains this one at b.c");
    EXPECT_EQ(NamesOf(a->NamedModules()), "'' b b.c");
}

TEST(ModuleTest, CountsWhatIsSharedOnce) {
    const auto root = Holder(), child = Holder();
    const auto weight = Leaf({1, 2});
    root->RegisterParameter("in", weight);
    root->RegisterParameter("out", weight);
    root->RegisterModule("first", child);
    root->RegisterModule("second", child);
    child->RegisterParameter("w", Leaf(3));
    child->RegisterBuffer("b", Of({3}));
    EXPECT_EQ(NamesOf(root->NamedParameters()), "in first.w");
    EXPECT_EQ(NamesOf(root->NamedBuffers()), "first.b");
    EXPECT_EQ(NamesOf(root->NamedModules()), "'' first");
    EXPECT_EQ(NamesOf(root->NamedChildren()), "first second");
}

TEST(ModuleTest, FindsByName) {
    const auto net = std::make_shared<nn::Sequential>(
        Holder(), std::make_shared<nn::Sequential>(std::make_shared<nn::Linear>(2, 2)));
    EXPECT_EQ(net->module("1.0")->type(), "Linear");
    EXPECT_EQ(net->module("1.0")->path(), "1.0");
    EXPECT_EQ(net->module("1.0")->Describe(), "1.0 (Linear)");
    EXPECT_EQ(net->path(), "");
    EXPECT_EQ(Thrown<IndexError>([&] { net->module("1.7"); }), "1 (Sequential): no module '7'; there are: 0");
    EXPECT_EQ(Thrown<IndexError>([&] { net->module("1.0")->parameter("w"); }),
              "1.0 (Linear): no parameter 'w'; there are: weight, bias");
    EXPECT_EQ(Thrown<IndexError>([&] { net->buffer("mean"); }), "Sequential: no buffer 'mean'; there are: none");
    EXPECT_TRUE(net->module("1.0")->has_parameter("weight"));
    EXPECT_FALSE(net->module("1.0")->has_parameter("mean"));
}

TEST(ModuleTest, AChildOutlivesItsParent) {
    const auto linear = std::make_shared<nn::Linear>(2, 2);
    {
        const nn::Sequential net(linear);
        EXPECT_EQ(linear->path(), "0");
    }
    EXPECT_EQ(linear->path(), "");
    EXPECT_EQ(linear->Describe(), "Linear");
}

TEST(ModuleTest, TrainsAndEvaluatesAsATree) {
    const auto inner = Holder();
    const auto net = std::make_shared<nn::Sequential>(Holder(), std::make_shared<nn::Sequential>(inner));
    EXPECT_TRUE(net->is_training() && inner->is_training());
    net->Eval();
    EXPECT_FALSE(net->is_training() || inner->is_training());
    inner->Train();
    EXPECT_TRUE(inner->is_training() && !net->is_training());
    net->Train();
    EXPECT_TRUE(net->is_training() && inner->is_training());
}

TEST(ModuleTest, AppliesToChildrenFirst) {
    const auto net = std::make_shared<nn::Sequential>(Holder("A"), std::make_shared<nn::Sequential>(Holder("B")));
    std::string seen;
    net->Apply([&](nn::Module *module) { seen += module->type() + " "; });
    EXPECT_EQ(seen, "A B Sequential Sequential ");
}

TEST(ModuleTest, ForgetsGradientsAndFreezes) {
    const auto linear = std::make_shared<nn::Linear>(1, 1);
    const auto x = Of({2}, {1, 1});
    const auto weight = linear->parameter("weight");
    (*linear)({x})[0]->Backward();
    EXPECT_EQ(weight->grad()->Item<float>(), 2);
    linear->ZeroGrad(/*set_to_none=*/false);
    EXPECT_EQ(weight->grad()->Item<float>(), 0);
    linear->ZeroGrad();
    EXPECT_EQ(weight->grad(), nullptr);
    linear->RequiresGrad(false);
    EXPECT_FALSE((*linear)({x})[0]->requires_grad());
    linear->RequiresGrad();
    EXPECT_TRUE((*linear)({x})[0]->requires_grad());
}

TEST(ModuleTest, NamesThePathOfTheInnermostModuleInErrors) {
    const auto bad = test::MakeModule([](const TensorList &) -> TensorList { throw ShapeError("Bad: no"); }, "Bad");
    const auto inner = Holder("Inner");
    inner->RegisterModule("fc", bad);
    const auto net = std::make_shared<nn::Sequential>(
        test::MakeModule([inner](const TensorList &x) { return (*inner->module("fc"))(x); }, "Outer"));
    std::dynamic_pointer_cast<Lambda>((*net)[0])->RegisterModule("inner", inner);
    EXPECT_EQ(Thrown<ShapeError>([&] { (*net)({Of({1})}); }), "Bad: no [in module 0.inner.fc (Bad)]");
    EXPECT_EQ(Thrown<ShapeError>([&] { (*bad)({}); }), "Bad: no [in module 0.inner.fc (Bad)]");
    const auto std_error = test::MakeModule([](const TensorList &) -> TensorList { throw std::out_of_range("x"); });
    EXPECT_EQ(Thrown<std::out_of_range>([&] { (*std_error)({}); }), "x [in module Lambda]");
}

TEST(ModuleTest, PrintsAsATree) {
    const auto root = Holder("Net");
    root->RegisterModule("fc1", std::make_shared<nn::Linear>(784, 30));
    root->RegisterModule("rest", std::make_shared<nn::Sequential>(Holder("Any")));
    std::ostringstream stream;
    stream << *root;
    EXPECT_EQ(stream.str(),
              "Net(\n"
              "  (fc1): Linear(in_features=784, out_features=30, bias=true)\n"
              "  (rest): Sequential(\n"
              "    (0): Any()\n"
              "  )\n"
              ")");
}

}  // namespace
}  // namespace infini_train
