// Hooks for all functions of the process.

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/elementwise.h"
#include "infini_train/include/autograd/function.h"
#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/common/hook.h"
#include "infini_train/include/tensor.h"
#include "infini_train/include/utils/global_function_hook_registry.h"

#include "test/support/modules.h"
#include "test/support/tensors.h"

namespace infini_train {
namespace {

using autograd::Function;
using test::Contains;
using test::Floats;
using test::Leaf;
using test::Of;
using test::Thrown;
using test::Values;
using utils::GlobalFunctionHookRegistry;
using Order = std::vector<std::string>;

TEST(GlobalFunctionHook, SeesEveryFunctionForwardAndBackward) {
    Order order;
    auto &registry = GlobalFunctionHookRegistry::Instance();
    HookGroup group;
    group.Add(registry.RegisterFunctionForwardPreHook([&](Function *function, const TensorList &inputs) {
        order.push_back("pre " + function->type() + " " + std::to_string(inputs.size()));
    }));
    group.Add(registry.RegisterFunctionForwardHook([&](Function *function, const TensorList &, const TensorList &out) {
        order.push_back("post " + function->type() + " " + std::to_string(out[0]->Item<int>()));
    }));
    group.Add(registry.RegisterFunctionBackwardPreHook([&](Function *function, const TensorList &grads) {
        order.push_back("backward pre " + function->type() + " " + std::to_string(grads[0]->Item<int>()));
    }));
    group.Add(registry.RegisterFunctionBackwardHook([&](Function *function, const TensorList &, const TensorList &) {
        order.push_back("backward post " + function->type());
    }));
    const auto x = Leaf(3);
    const auto y = x->Square()->Neg();
    y->Backward();
    EXPECT_EQ(order, (Order{"pre Square 1", "post Square 9", "pre Neg 1", "post Neg -9", "backward pre Neg 1",
                            "backward post Neg", "backward pre Square -1", "backward post Square",
                            "backward pre AccumulateGrad -6", "backward post AccumulateGrad"}));
    EXPECT_EQ(Values(x->grad()), (Floats{-6}));
    group.Remove();
    order.clear();
    x->Square()->Backward();
    EXPECT_EQ(order, Order{});
}

TEST(GlobalFunctionHook, RunsUnderNoGradToo) {
    int calls = 0;
    const ScopedHook hook(GlobalFunctionHookRegistry::Instance().RegisterFunctionForwardHook(
        [&](Function *, const TensorList &, const TensorList &) { ++calls; }));
    const autograd::NoGradGuard no_grad;
    EXPECT_EQ(Values(Of({1, 2})->Add(Of({3, 4}))), (Floats{4, 6}));
    EXPECT_EQ(calls, 1);
}

// A function's Forward and Backward are made of others.
class SquareOfNeg : public Function {
public:
    SquareOfNeg() : Function("SquareOfNeg") {}
    TensorList Forward(const TensorList &inputs) override { return {inputs[0]->Neg()->Square()}; }
    void SetupContext(const TensorList &inputs, const TensorList &) override { ctx_.SaveForBackward(inputs); }
    TensorList Backward(const TensorList &grads) override { return {grads[0]->Mul(ctx_.GetSavedTensors()[0])->Mul(2)}; }
};

TEST(GlobalFunctionHook, SeesInsidesIfAsked) {
    Order outermost, all;
    auto &registry = GlobalFunctionHookRegistry::Instance();
    const auto note = [](Order *order) {
        return
            [order](Function *function, const TensorList &, const TensorList &) { order->push_back(function->type()); };
    };
    HookGroup group;
    group.Add(registry.RegisterFunctionForwardHook(note(&outermost)));
    group.Add(registry.RegisterFunctionForwardHook(note(&all), {}, autograd::FunctionDepth::kAll));
    const auto x = Leaf(3);
    std::make_shared<SquareOfNeg>()->Apply({x})[0]->Backward();
    EXPECT_EQ(Values(x->grad()), (Floats{6}));
    EXPECT_EQ(outermost, (Order{"SquareOfNeg"}));
    EXPECT_EQ(all, (Order{"Neg", "Square", "SquareOfNeg", "Mul", "MulScalar"}));
}

TEST(GlobalFunctionHook, ComesBeforeTheFunctionsOwn) {
    Order order;
    const auto neg = std::make_shared<autograd::Neg>();
    const auto note = [&](const std::string &name) {
        return [&order, name](Function *, const TensorList &) { order.push_back(name); };
    };
    const auto note_post = [&](const std::string &name) {
        return [&order, name](Function *, const TensorList &, const TensorList &) { order.push_back(name); };
    };
    neg->RegisterForwardPreHook(note("own forward pre"));
    neg->RegisterForwardPostHook(note_post("own forward post"));
    neg->RegisterBackwardPreHook(note("own backward pre"));
    neg->RegisterBackwardPostHook(note_post("own backward post"));
    auto &registry = GlobalFunctionHookRegistry::Instance();
    HookGroup group;
    group.Add(registry.RegisterFunctionForwardPreHook(note("forward pre")));
    group.Add(registry.RegisterFunctionForwardHook(note_post("forward post")));
    const auto x = Leaf(1);
    const auto y = neg->Apply({x})[0];
    group.Add(registry.RegisterFunctionBackwardPreHook([&](Function *function, const TensorList &) {
        if (function == neg.get()) {
            order.push_back("backward pre");
        }
    }));
    group.Add(registry.RegisterFunctionBackwardHook([&](Function *function, const TensorList &, const TensorList &) {
        if (function == neg.get()) {
            order.push_back("backward post");
        }
    }));
    y->Backward();
    EXPECT_EQ(order, (Order{"forward pre", "own forward pre", "forward post", "own forward post", "backward pre",
                            "own backward pre", "backward post", "own backward post"}));
}

TEST(GlobalFunctionHook, MayReplace) {
    auto &registry = GlobalFunctionHookRegistry::Instance();
    HookGroup group;
    group.Add(registry.RegisterFunctionForwardHook(
        [](Function *function, const TensorList &, const TensorList &outputs) -> HookResult {
            return function->type() == "Neg" ? HookResult(TensorList{outputs[0] * 10}) : std::nullopt;
        }));
    const auto x = Leaf(2);
    const auto y = x->Neg();
    EXPECT_EQ(Values(y), (Floats{-20}));
    group.Add(registry.RegisterFunctionBackwardHook(
        [](Function *function, const TensorList &grad_inputs, const TensorList &) -> HookResult {
            return function->type() == "Neg" ? HookResult(TensorList{grad_inputs[0] * 3}) : std::nullopt;
        }));
    y->Backward();
    EXPECT_EQ(Values(x->grad()), (Floats{-30}));
}

TEST(GlobalFunctionHook, FunctionsKnowTheirModule) {
    const auto inner = test::MakeModule([](const TensorList &in) { return TensorList{in[0]->Square()}; }, "Inner");
    const auto outer = test::MakeModule([&](const TensorList &in) { return (*inner)({in[0]->Neg()}); }, "Outer");
    outer->RegisterModule("body", inner);
    Order paths;
    HookGroup group;
    group.Add(GlobalFunctionHookRegistry::Instance().RegisterFunctionBackwardPreHook(
        [&](Function *function, const TensorList &) {
            paths.push_back(function->type() + ": " + function->module_path());
        }));
    (*outer)({Leaf(2)})[0]->Backward();
    EXPECT_EQ(paths, (Order{"Square: body (Inner)", "Neg: Outer", "AccumulateGrad: "}));
}

TEST(GlobalFunctionHook, ErrorsNameTheFunction) {
    const ScopedHook hook(GlobalFunctionHookRegistry::Instance().RegisterFunctionForwardPreHook(
        [](Function *, const TensorList &) { throw std::runtime_error("no more"); }, {.name = "budget"}));
    const std::string text = Thrown<std::runtime_error>([] { Leaf(1)->Neg(); });
    EXPECT_TRUE(Contains(text, "no more [forward pre hook 'budget' of Neg]")) << text;
}

}  // namespace
}  // namespace infini_train
