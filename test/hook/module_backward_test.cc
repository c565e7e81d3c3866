// Module backward hooks in the corners where they are known to go wrong elsewhere. Each test names the public report
// that its case comes from; the values are PyTorch's where it is right.

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/autograd/grad.h"
#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/tensor.h"
#include "infini_train/include/utils/global_module_hook_registry.h"

#include "test/support/modules.h"
#include "test/support/tensors.h"

namespace infini_train {
namespace {

using test::Contains;
using test::Floats;
using test::Leaf;
using test::MakeModule;
using test::Thrown;
using test::Values;

// What the backward hooks of a module were given, one entry a call.
struct Record {
    std::vector<std::vector<Floats>> pre, grad_inputs, grad_outputs;
    std::vector<std::string> order;

    void Watch(nn::Module &module) {
        module.RegisterBackwardPreHook([this](nn::Module *, const TensorList &grads) {
            pre.push_back(All(grads));
            order.push_back("BP");
        });
        module.RegisterBackwardPostHook([this](nn::Module *, const TensorList &in, const TensorList &out) {
            grad_inputs.push_back(All(in));
            grad_outputs.push_back(All(out));
            order.push_back("BH");
        });
    }
    static std::vector<Floats> All(const TensorList &tensors) {
        std::vector<Floats> values;
        for (const auto &tensor : tensors) {
            values.push_back(Values(tensor));
        }
        return values;
    }
};
using Lists = std::vector<std::vector<Floats>>;
using Order = std::vector<std::string>;
const Floats kNull = {};

// pytorch#598, #7040, #12331: the gradients are the module's, not those of its last operator.
TEST(ModuleBackward, GradientsAreTheModulesOwn) {
    auto module = MakeModule([](const TensorList &in) { return TensorList{in[0] + in[1] + in[2]}; });
    Record record;
    record.Watch(*module);
    auto x = Leaf(1), y = Leaf(1), z = Leaf(1);
    ((*module)({x, y, z})[0] * 2)->Backward();
    EXPECT_EQ(record.grad_inputs, (Lists{{{2}, {2}, {2}}}));
    EXPECT_EQ(record.grad_outputs, (Lists{{{2}}}));
}

TensorList TwoAndThree(const TensorList &in) {
    return {in[0] * 2, in[0] * 3};
}

// fairscale#833, pytorch#76681
TEST(ModuleBackward, OneOfTwoOutputsUsed) {
    auto module = MakeModule(TwoAndThree);
    Record record;
    record.Watch(*module);
    auto x = Leaf(1);
    (*module)({x})[0]->Backward();
    EXPECT_EQ(record.pre, (Lists{{{1}, kNull}}));
    EXPECT_EQ(record.grad_inputs, (Lists{{{2}}}));
    EXPECT_EQ(record.grad_outputs, (Lists{{{1}, kNull}}));
}

TEST(ModuleBackward, BothOutputsUsedFireOnce) {
    auto module = MakeModule(TwoAndThree);
    Record record;
    record.Watch(*module);
    auto x = Leaf(1);
    auto out = (*module)({x});
    (out[0] + out[1] * 10)->Backward();
    EXPECT_EQ(record.grad_inputs, (Lists{{{32}}}));
    EXPECT_EQ(record.grad_outputs, (Lists{{{1}, {10}}}));
}

TEST(ModuleBackward, OneOutputAfterTheOther) {
    auto module = MakeModule(TwoAndThree);
    Record record;
    record.Watch(*module);
    auto x = Leaf(1);
    auto out = (*module)({x});
    out[0]->Backward(nullptr, /*retain_graph=*/true);
    out[1]->Backward();
    EXPECT_EQ(record.grad_inputs, (Lists{{{2}}, {{3}}}));
    EXPECT_EQ(Values(x->grad()), (Floats{5}));
}

TEST(ModuleBackward, OuterReturnsInnersOutput) {
    auto inner = MakeModule([](const TensorList &in) { return TensorList{in[0] * 2}; }, "Inner");
    auto outer = MakeModule([&](const TensorList &in) { return (*inner)(in); }, "Outer");
    Order order;
    for (const auto &module : {outer, inner}) {
        const std::string name = module->type();
        module->RegisterBackwardPreHook(
            [&order, name](nn::Module *, const TensorList &) { order.push_back(name + ".BP"); });
        module->RegisterBackwardPostHook(
            [&order, name](nn::Module *, const TensorList &, const TensorList &) { order.push_back(name + ".BH"); });
    }
    (*outer)({Leaf(1)})[0]->Backward();
    EXPECT_EQ(order, (Order{"Outer.BP", "Inner.BP", "Inner.BH", "Outer.BH"}));
}

// pytorch#100528, #155339: the hooks are paired even when no gradient goes to an input.
TEST(ModuleBackward, NoInputRequiresGrad) {
    auto weight = Leaf(3);
    auto module = MakeModule([&](const TensorList &in) { return TensorList{in[0] * weight}; });
    Record record;
    record.Watch(*module);
    (*module)({test::Of({2}, {})})[0]->Backward();
    EXPECT_EQ(record.order, (Order{"BP", "BH"}));
    EXPECT_EQ(record.grad_inputs, (Lists{{kNull}}));
    EXPECT_EQ(record.grad_outputs, (Lists{{{1}}}));
    EXPECT_EQ(Values(weight->grad()), (Floats{2}));
}

TEST(ModuleBackward, InputThatTheOutputDoesNotDependOn) {
    auto weight = Leaf(3);
    auto module = MakeModule([&](const TensorList &) { return TensorList{weight * 2}; });
    Record record;
    record.Watch(*module);
    auto x = Leaf(1);
    (*module)({x})[0]->Backward();
    EXPECT_EQ(record.order, (Order{"BP", "BH"}));
    EXPECT_EQ(record.grad_inputs, (Lists{{kNull}}));
    EXPECT_EQ(x->grad(), nullptr);
}

TEST(ModuleBackward, GradientForAnInputWithoutOneIsAnError) {
    auto weight = Leaf(3);
    auto module = MakeModule([&](const TensorList &in) { return TensorList{in[0] * weight}; });
    module->RegisterBackwardPostHook(
        [](nn::Module *, const TensorList &, const TensorList &) { return TensorList{test::Of({1}, {})}; });
    auto y = (*module)({test::Of({2}, {})})[0];
    const std::string text = Thrown<AutogradError>([&] { y->Backward(); });
    EXPECT_TRUE(Contains(text, "no gradient goes to") && Contains(text, "Lambda")) << text;
}

// pytorch#59901
TEST(ModuleBackward, NothingUnderNoGrad) {
    auto module = MakeModule([](const TensorList &in) { return TensorList{in[0] * 2}; });
    Record record;
    record.Watch(*module);
    int forward = 0;
    module->RegisterForwardPostHook([&](nn::Module *, const TensorList &, const TensorList &) { ++forward; });
    autograd::NoGradGuard no_grad;
    auto y = (*module)({Leaf(1)})[0];
    EXPECT_EQ(forward, 1);
    EXPECT_FALSE(y->requires_grad());
    EXPECT_TRUE(record.order.empty());
}

// pytorch#61446: a module that passes its input through.
TEST(ModuleBackward, PassThrough) {
    auto module = MakeModule([](const TensorList &in) { return in; });
    auto x = Leaf(1);
    EXPECT_EQ((*module)({x})[0], x);

    module->RegisterBackwardPostHook(
        [](nn::Module *, const TensorList &grad_inputs, const TensorList &) { return grad_inputs[0] * 2; });
    auto y = (*module)({x})[0];
    EXPECT_NE(y, x);
    EXPECT_EQ(y->storage(), x->storage());
    y->Backward();
    EXPECT_EQ(Values(x->grad()), (Floats{2}));

    x->ZeroGrad();
    ((*module)({x})[0] + x)->Backward();
    EXPECT_EQ(Values(x->grad()), (Floats{3}));
}

TEST(ModuleBackward, PassThroughOfAnInteriorTensor) {
    auto module = MakeModule([](const TensorList &in) { return in; });
    Record record;
    record.Watch(*module);
    auto x = Leaf(1);
    auto a = x * 5;
    ((*module)({a})[0] + a * 10)->Backward();
    EXPECT_EQ(record.grad_outputs, (Lists{{{1}}}));
    EXPECT_EQ(Values(x->grad()), (Floats{55}));
}

// pytorch#57157, captum#659: the output that a forward hook caught is in the graph.
TEST(ModuleBackward, GradientOfACapturedOutput) {
    auto module = MakeModule([](const TensorList &in) { return TensorList{in[0] * 2}; });
    Record record;
    record.Watch(*module);
    TensorPtr captured;
    module->RegisterForwardPostHook(
        [&](nn::Module *, const TensorList &, const TensorList &outputs) { captured = outputs[0]; });
    auto x = Leaf(1), w = Leaf(3);
    auto loss = (*module)({x})[0] * w;
    EXPECT_EQ(Values(autograd::Grad({loss}, {captured})[0]), (Floats{3}));
}

// pytorch#88312: the hook of the first backward pass doesn't fire again in the second.
TEST(ModuleBackward, DoubleBackward) {
    auto module = MakeModule([](const TensorList &in) { return TensorList{in[0]->Square()->Mean()}; });
    Record record;
    record.Watch(*module);
    auto x = Leaf(3);
    auto first = autograd::Grad({(*module)({x})[0]}, {x}, {}, std::nullopt, /*create_graph=*/true)[0];
    EXPECT_EQ(Values(first), (Floats{6}));
    EXPECT_EQ(Values(autograd::Grad({first}, {x})[0]), (Floats{2}));
    EXPECT_EQ(record.order, (Order{"BP", "BH"}));
}

// pytorch#82528: no cycle of references.
TEST(ModuleBackward, NothingLeaksAfterDoubleBackward) {
    std::weak_ptr<nn::Module> module_alive;
    std::weak_ptr<Tensor> y_alive, grad_alive;
    std::weak_ptr<autograd::Function> node_alive;
    {
        auto module = MakeModule([](const TensorList &in) { return TensorList{in[0]->Square()}; });
        module->RegisterBackwardPostHook([](nn::Module *, const TensorList &, const TensorList &) {});
        auto x = Leaf(3);
        auto y = (*module)({x})[0];
        y->Backward(nullptr, true, true);
        module_alive = module;
        y_alive = y;
        grad_alive = x->grad();
        node_alive = y->grad_fn();
        EXPECT_TRUE(x->grad()->requires_grad());
        x->set_grad(nullptr);  // x's gradient is made from x: that cycle is PyTorch's, too
    }
    EXPECT_TRUE(module_alive.expired());
    EXPECT_TRUE(y_alive.expired());
    EXPECT_TRUE(grad_alive.expired());
    EXPECT_TRUE(node_alive.expired());
}

TEST(ModuleBackward, ModuleThatKeepsItsOutputIsFreedAfterBackward) {
    std::weak_ptr<nn::Module> alive;
    {
        auto kept = std::make_shared<TensorPtr>();
        auto module = MakeModule([kept](const TensorList &in) { return TensorList{in[0] * 2}; });
        module->RegisterBackwardPostHook([](nn::Module *, const TensorList &, const TensorList &) {});
        *kept = (*module)({Leaf(1)})[0];
        (*kept)->Backward();
        alive = module;
    }
    EXPECT_TRUE(alive.expired());
}

// pytorch#5022, TransformerLens#1160: a wrong replacement is an error, and no gradient is written.
TEST(ModuleBackward, WrongReplacements) {
    struct Case {
        std::function<TensorList()> replacement;
        const char *says;
    };
    const std::vector<Case> cases = {
        {[] {
             return TensorList{test::Of({1}, {}), test::Of({1}, {})};
         },
         "expected 1 tensor"},
        {[] {
             return TensorList{test::Of({1, 2})};
         },
         "(2,)"},
        {[] { return TensorList{Tensor::Ones({}, DataType::kFLOAT64, test::TestDevice())}; }, "float64"},
    };
    for (const Case &c : cases) {
        auto inner = MakeModule([](const TensorList &in) { return TensorList{in[0] * 2}; }, "Inner");
        auto outer = MakeModule([&](const TensorList &in) { return (*inner)(in); }, "Outer");
        outer->RegisterModule("inner", inner);
        inner->RegisterBackwardPostHook(
            [&](nn::Module *, const TensorList &, const TensorList &) { return c.replacement(); }, {.name = "clip"});
        auto x = Leaf(1);
        auto y = (*outer)({x})[0];
        const std::string text = Thrown<AutogradError>([&] { y->Backward(); });
        EXPECT_TRUE(Contains(text, c.says)) << text;
        EXPECT_TRUE(Contains(text, "'clip'") && Contains(text, "inner (Inner)")) << text;
        EXPECT_EQ(x->grad(), nullptr);
    }
}

TEST(ModuleBackward, NullReplacementStopsTheGradient) {
    auto module = MakeModule([](const TensorList &in) { return TensorList{in[0] * 2}; });
    module->RegisterBackwardPostHook(
        [](nn::Module *, const TensorList &, const TensorList &) { return TensorList{nullptr}; });
    auto x = Leaf(1);
    (*module)({x})[0]->Backward();
    EXPECT_EQ(x->grad(), nullptr);
}

// pytorch#61519, vision#4164: working in place on a hooked module's input is refused, never silently wrong.
TEST(ModuleBackward, InPlaceOnTheInputIsRefused) {
    auto module = MakeModule([](const TensorList &in) { return TensorList{in[0]->Relu_()}; });
    auto plain = Leaf({1, -2});
    EXPECT_EQ(Values((*module)({plain * 1})[0]), (Floats{1, 0}));

    module->RegisterBackwardPostHook([](nn::Module *, const TensorList &, const TensorList &) {});
    auto input = plain * 1;
    const std::string text = Thrown<AutogradError>([&] { (*module)({input}); });
    EXPECT_TRUE(Contains(text, "in place") && Contains(text, "Clone")) << text;
    EXPECT_EQ(Values(input), (Floats{1, -2}));
}

// pytorch#95617
TEST(ModuleBackward, ForwardHookOfAnInPlaceModule) {
    auto module = MakeModule([](const TensorList &in) { return TensorList{in[0]->Relu_()}; });
    Floats before, after;
    bool same = false;
    module->RegisterForwardPreHook([&](nn::Module *, const TensorList &inputs) { before = Values(inputs[0]); });
    module->RegisterForwardPostHook([&](nn::Module *, const TensorList &inputs, const TensorList &outputs) {
        after = Values(inputs[0]);
        same = inputs[0] == outputs[0];
    });
    (*module)({test::Of({1, -2})});
    EXPECT_EQ(before, (Floats{1, -2}));
    EXPECT_EQ(after, (Floats{1, 0}));
    EXPECT_TRUE(same);
}

TEST(ModuleBackward, ModuleDestroyedBeforeBackward) {
    int fired = 0;
    std::string type;
    TensorPtr y;
    auto x = Leaf(1);
    {
        auto module = MakeModule([](const TensorList &in) { return TensorList{in[0] * 2}; }, "Gone");
        module->RegisterBackwardPostHook([&](nn::Module *mod, const TensorList &, const TensorList &) {
            ++fired;
            type = mod->type();
        });
        y = (*module)({x})[0];
    }
    y->Backward();
    EXPECT_EQ(fired, 1);
    EXPECT_EQ(type, "Gone");
    EXPECT_EQ(Values(x->grad()), (Floats{2}));
}

TEST(ModuleBackward, ModuleOnTheStackDestroyedBeforeBackward) {
    int fired = 0;
    nn::Module *seen = nullptr;
    TensorPtr y;
    auto x = Leaf(1);
    {
        test::Lambda module([](const TensorList &in) { return TensorList{in[0] * 2}; });
        seen = &module;
        module.RegisterBackwardPostHook([&](nn::Module *mod, const TensorList &, const TensorList &) {
            ++fired;
            seen = mod;
        });
        y = module({x})[0];
    }
    y->Backward();
    EXPECT_EQ(fired, 1);
    EXPECT_EQ(seen, nullptr);  // nothing owns it, so there is nothing left to name
}

TEST(ModuleBackward, GlobalHooksRunFirst) {
    auto module = MakeModule([](const TensorList &in) { return TensorList{in[0] * 2}; });
    Order order;
    const auto pre = [&](const char *name) {
        return [&order, name](nn::Module *, const TensorList &) { order.push_back(name); };
    };
    const auto post = [&](const char *name) {
        return [&order, name](nn::Module *, const TensorList &, const TensorList &) { order.push_back(name); };
    };
    module->RegisterForwardPreHook(pre("own FP"));
    module->RegisterForwardPostHook(post("own FH"));
    module->RegisterBackwardPreHook(pre("own BP"));
    module->RegisterBackwardPostHook(post("own BH"));
    auto &global = utils::GlobalModuleHookRegistry::Instance();
    HookGroup group;
    group.Add(global.RegisterModuleForwardPreHook(pre("global FP")));
    group.Add(global.RegisterModuleForwardHook(post("global FH")));
    group.Add(global.RegisterModuleFullBackwardPreHook(pre("global BP")));
    group.Add(global.RegisterModuleFullBackwardHook(post("global BH")));
    (*module)({Leaf(1)})[0]->Backward();
    EXPECT_EQ(order,
              (Order{"global FP", "own FP", "global FH", "own FH", "global BP", "own BP", "global BH", "own BH"}));
}

// A gradient that nobody else can see is given to hooks as it is; any other one as a copy.
TEST(ModuleBackward, HooksMayChangeTheirGradientsInPlace) {
    auto module = MakeModule([](const TensorList &in) { return TensorList{in[0] + in[1]}; });
    module->RegisterBackwardPostHook([](nn::Module *, const TensorList &grad_inputs, const TensorList &grad_outputs) {
        grad_inputs[1]->Mul_(10);
        EXPECT_EQ(Values(grad_inputs[0]), (Floats{1}));
        EXPECT_EQ(Values(grad_outputs[0]), (Floats{1}));
    });
    auto x = Leaf(1), y = Leaf(1);
    (*module)({x, y})[0]->Backward();
    EXPECT_EQ(Values(x->grad()), (Floats{1}));
    EXPECT_EQ(Values(y->grad()), (Floats{10}));
}

// pytorch#149938, #86051: whether a parameter's gradient is there when a post hook runs is open; it is right
// afterwards.
TEST(ModuleBackward, ParameterGradientsAreRightOnceBackwardReturns) {
    const auto w = Leaf(3);
    const auto module = MakeModule([&](const TensorList &in) { return TensorList{in[0] * w}; });
    module->RegisterParameter("w", w);
    int calls = 0;
    module->RegisterBackwardPostHook([&](nn::Module *, const TensorList &, const TensorList &) {
        ++calls;
        if (w->grad() != nullptr) {
            EXPECT_EQ(Values(w->grad()), (Floats{5}));
        }
    });
    const auto x = Leaf(5);
    (*module)({x})[0]->Backward();
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(Values(w->grad()), (Floats{5}));
    EXPECT_EQ(Values(x->grad()), (Floats{3}));
}

}  // namespace
}  // namespace infini_train
