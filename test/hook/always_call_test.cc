// Hooks that run even if what they are registered on threw: forward and backward, of functions and of modules.

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/elementwise.h"
#include "infini_train/include/autograd/function.h"
#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/common/hook.h"
#include "infini_train/include/nn/modules/module.h"
#include "infini_train/include/tensor.h"

#include "test/support/modules.h"
#include "test/support/tensors.h"

namespace infini_train {
namespace {

using autograd::Function;
using test::Floats;
using test::Leaf;
using test::MakeModule;
using test::Thrown;
using test::Values;
using Order = std::vector<std::string>;

constexpr char kBoom[] = "boom";

// Identity forward, an exception backward.
class Bomb : public Function {
public:
    Bomb() : Function("Bomb") {}
    TensorList Forward(const TensorList &inputs) override { return {inputs[0]->Mul(1)}; }
    TensorList Backward(const TensorList &) override { throw std::runtime_error(kBoom); }
};

auto NotePre(Order *order, const std::string &name) {
    return [order, name](auto *, const TensorList &) { order->push_back(name); };
}
auto NotePost(Order *order, const std::string &name) {
    return [order, name](auto *, const TensorList &, const TensorList &) { order->push_back(name); };
}

bool IsBoom(const std::string &text) {
    return text.rfind(kBoom, 0) == 0;
}

TEST(AlwaysCall, FunctionForward) {
    Order order;
    const auto neg = std::make_shared<autograd::Neg>();
    neg->RegisterForwardPreHook([](Function *, const TensorList &) { throw std::runtime_error(kBoom); });
    neg->RegisterForwardPostHook(NotePost(&order, "plain"));
    neg->RegisterForwardPostHook(NotePost(&order, "always"), {.always_call = true});
    EXPECT_TRUE(IsBoom(Thrown<std::runtime_error>([&] { neg->Apply({Leaf(1)}); })));
    EXPECT_EQ(order, (Order{"always"}));
}

TEST(AlwaysCall, FunctionBackward) {
    Order order;
    const auto bomb = std::make_shared<Bomb>();
    const auto x = Leaf(1);
    const auto y = bomb->Apply({x})[0];
    bomb->RegisterBackwardPostHook(NotePost(&order, "plain"));
    bomb->RegisterBackwardPostHook(
        [&](Function *, const TensorList &grad_inputs, const TensorList &grad_outputs) {
            order.push_back("always");
            EXPECT_EQ(grad_inputs, TensorList{nullptr});
            EXPECT_EQ(Values(grad_outputs[0]), (Floats{1}));
        },
        {.always_call = true});
    bomb->RegisterBackwardPostHook(
        [&](Function *, const TensorList &, const TensorList &) {
            order.push_back("throws in vain");
            throw std::logic_error("dropped");
        },
        {.always_call = true});
    EXPECT_TRUE(IsBoom(Thrown<std::runtime_error>([&] { y->Backward(); })));
    EXPECT_EQ(order, (Order{"always", "throws in vain"}));
    EXPECT_EQ(x->grad(), nullptr);
}

TEST(AlwaysCall, FunctionBackwardAfterAHookThatThrew) {
    Order order;
    const auto neg = std::make_shared<autograd::Neg>();
    const auto y = neg->Apply({Leaf(1)})[0];
    neg->RegisterBackwardPreHook([](Function *, const TensorList &) { throw std::runtime_error(kBoom); });
    neg->RegisterBackwardPreHook(NotePre(&order, "pre"));
    neg->RegisterBackwardPostHook(NotePost(&order, "always"), {.always_call = true});
    EXPECT_TRUE(IsBoom(Thrown<std::runtime_error>([&] { y->Backward(); })));
    EXPECT_EQ(order, (Order{"always"}));
}

// The insides of two nested modules throw: those that had begun end, the inner first.
TEST(AlwaysCall, ModulesBackwardWhenTheInsidesThrow) {
    Order order;
    const auto inner = MakeModule([](const TensorList &in) { return std::make_shared<Bomb>()->Apply(in); }, "Inner");
    const auto outer = MakeModule([&](const TensorList &in) { return (*inner)({in[0] * 2}); }, "Outer");
    const auto after = MakeModule([](const TensorList &in) { return TensorList{in[0] * 3}; }, "After");
    for (const auto &module : {inner, outer, after}) {
        module->RegisterBackwardPreHook(NotePre(&order, module->type() + " pre"));
        module->RegisterBackwardPostHook(NotePost(&order, module->type() + " plain"));
        module->RegisterBackwardPostHook(NotePost(&order, module->type() + " always"), {.always_call = true});
    }
    const auto x = Leaf(1);
    const auto y = (*after)((*outer)({x}))[0];
    EXPECT_TRUE(IsBoom(Thrown<std::runtime_error>([&] { y->Backward(); })));
    EXPECT_EQ(order, (Order{"After pre", "After plain", "After always", "Outer pre", "Inner pre", "Inner always",
                            "Outer always"}));
    EXPECT_EQ(x->grad(), nullptr);
    EXPECT_TRUE(autograd::GradMode::IsEnabled());

    // The next pass knows nothing of this one.
    order.clear();
    const auto z = (*after)({x})[0];
    z->Backward();
    EXPECT_EQ(order, (Order{"After pre", "After plain", "After always"}));
    EXPECT_EQ(Values(x->grad()), (Floats{3}));
}

TEST(AlwaysCall, ModuleBackwardWhenItsOwnHooksThrow) {
    Order order;
    const auto module = MakeModule([](const TensorList &in) { return TensorList{in[0] * 2}; });
    const auto boom =
        module->RegisterBackwardPreHook([](nn::Module *, const TensorList &) { throw std::runtime_error(kBoom); });
    module->RegisterBackwardPreHook(NotePre(&order, "pre"));
    module->RegisterBackwardPostHook(
        [&](nn::Module *, const TensorList &grad_inputs, const TensorList &grad_outputs) {
            order.push_back("always");
            EXPECT_EQ(grad_inputs, TensorList{nullptr});
            EXPECT_EQ(Values(grad_outputs[0]), (Floats{5}));
        },
        {.always_call = true});
    const auto x = Leaf(1);
    EXPECT_TRUE(IsBoom(Thrown<std::runtime_error>([&] { ((*module)({x})[0] * 5)->Backward(); })));
    EXPECT_EQ(order, (Order{"always"}));

    boom->Remove();
    order.clear();
    const auto last = MakeModule([](const TensorList &in) { return TensorList{in[0] * 2}; });
    last->RegisterBackwardPostHook(
        [](nn::Module *, const TensorList &, const TensorList &) { throw std::runtime_error(kBoom); });
    last->RegisterBackwardPostHook(NotePost(&order, "plain"));
    last->RegisterBackwardPostHook(NotePost(&order, "always"), {.always_call = true});
    EXPECT_TRUE(IsBoom(Thrown<std::runtime_error>([&] { (*last)({x})[0]->Backward(); })));
    EXPECT_EQ(order, (Order{"always"}));
}

}  // namespace
}  // namespace infini_train
