// The hook document, section by section: what it promises of module hooks (1), function hooks (2), the shared hook.h
// (3), removal (4), the order of calls (5) and its notes (7), each with values.

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/elementwise.h"
#include "infini_train/include/autograd/function.h"
#include "infini_train/include/autograd/function_hook.h"
#include "infini_train/include/common/hook.h"
#include "infini_train/include/nn/module_hook.h"
#include "infini_train/include/nn/modules/module.h"
#include "infini_train/include/tensor.h"

#include "test/support/tensors.h"

namespace infini_train {
namespace {

using test::Floats;
using test::Leaf;
using test::Values;

using Log = std::vector<std::string>;

// Gives 2 * input, and says so.
class Twice : public nn::Module {
public:
    explicit Twice(Log *log = nullptr) : Module("Twice"), log_(log) {}

    std::vector<std::shared_ptr<Tensor>> Forward(const std::vector<std::shared_ptr<Tensor>> &inputs) override {
        if (log_ != nullptr) {
            log_->push_back("Forward");
        }
        return {inputs[0]->Mul(2)};
    }

private:
    Log *log_;
};

// ---- 1. Module hooks ------------------------------------------------------------------------------------------------

TEST(HookDocument, ModuleForwardPreHookSeesModuleAndInputs) {
    auto module = std::make_shared<Twice>();
    auto x = Leaf({1, 2});
    int calls = 0;
    auto handle =
        module->RegisterForwardPreHook([&](nn::Module *mod, const std::vector<std::shared_ptr<Tensor>> &inputs) {
            ++calls;
            EXPECT_EQ(mod, module.get());
            EXPECT_EQ(mod->type(), "Twice");
            ASSERT_EQ(inputs.size(), 1U);
            EXPECT_EQ(inputs[0], x);
        });
    auto y = (*module)({x})[0];
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(Values(y), (Floats{2, 4}));
}

TEST(HookDocument, ModuleForwardPostHookSeesInputsAndOutputs) {
    auto module = std::make_shared<Twice>();
    auto x = Leaf({1, 2});
    Floats seen_in, seen_out;
    auto handle = module->RegisterForwardPostHook([&](nn::Module *, const std::vector<std::shared_ptr<Tensor>> &inputs,
                                                      const std::vector<std::shared_ptr<Tensor>> &outputs) {
        seen_in = Values(inputs[0]);
        seen_out = Values(outputs[0]);
    });
    (*module)({x});
    EXPECT_EQ(seen_in, (Floats{1, 2}));
    EXPECT_EQ(seen_out, (Floats{2, 4}));
}

TEST(HookDocument, ModuleBackwardPreHookSeesGradOutputs) {
    auto module = std::make_shared<Twice>();
    auto x = Leaf({1, 2});
    Floats seen;
    auto handle =
        module->RegisterBackwardPreHook([&](nn::Module *mod, const std::vector<std::shared_ptr<Tensor>> &grad_outputs) {
            EXPECT_EQ(mod, module.get());
            ASSERT_EQ(grad_outputs.size(), 1U);
            seen = Values(grad_outputs[0]);
        });
    (*module)({x})[0]->Backward(test::Of({3, 5}));
    EXPECT_EQ(seen, (Floats{3, 5}));
    EXPECT_EQ(Values(x->grad()), (Floats{6, 10}));
}

TEST(HookDocument, ModuleBackwardPostHookSeesGradInputsAndGradOutputs) {
    auto module = std::make_shared<Twice>();
    auto x = Leaf({1, 2});
    Floats seen_in, seen_out;
    auto handle =
        module->RegisterBackwardPostHook([&](nn::Module *, const std::vector<std::shared_ptr<Tensor>> &grad_inputs,
                                             const std::vector<std::shared_ptr<Tensor>> &grad_outputs) {
            ASSERT_EQ(grad_inputs.size(), 1U);
            ASSERT_EQ(grad_outputs.size(), 1U);
            seen_in = Values(grad_inputs[0]);
            seen_out = Values(grad_outputs[0]);
        });
    (*module)({x})[0]->Backward(test::Of({3, 5}));
    EXPECT_EQ(seen_in, (Floats{6, 10}));
    EXPECT_EQ(seen_out, (Floats{3, 5}));
}

TEST(HookDocument, HookedModuleNodeIsTheOutputsGradFn) {
    auto module = std::make_shared<Twice>();
    auto x = Leaf({1, 2});
    auto plain = (*module)({x})[0];
    EXPECT_EQ(plain->grad_fn()->type(), "MulScalar");
    auto handle = module->RegisterBackwardPreHook([](nn::Module *, const TensorList &) {});
    auto hooked = (*module)({x})[0];
    EXPECT_EQ(hooked->grad_fn()->type(), "ModuleOutput");
}

// pytorch#117925.
TEST(HookDocument, ForwardCalledDirectlyRunsNoHooks) {
    Twice module;
    int calls = 0;
    module.RegisterForwardPreHook([&](nn::Module *, const TensorList &) { ++calls; });
    module.RegisterBackwardPostHook([&](nn::Module *, const TensorList &, const TensorList &) { ++calls; });
    auto x = Leaf(1);
    module.Forward({x})[0]->Backward();
    EXPECT_EQ(calls, 0);
    EXPECT_EQ(Values(x->grad()), (Floats{2}));
}

// ---- 2. Function hooks ----------------------------------------------------------------------------------------------

TEST(HookDocument, FunctionForwardHooks) {
    auto a = Leaf({1, 2}), b = Leaf({3, 4});
    auto mul = std::make_shared<autograd::Mul>();
    Log log;
    mul->RegisterForwardPreHook([&](autograd::Function *func, const std::vector<std::shared_ptr<Tensor>> &inputs) {
        EXPECT_EQ(func, mul.get());
        EXPECT_EQ(func->type(), "Mul");
        ASSERT_EQ(inputs.size(), 2U);
        EXPECT_EQ(inputs[1], b);
        log.push_back("pre");
    });
    mul->RegisterForwardPostHook([&](autograd::Function *, const std::vector<std::shared_ptr<Tensor>> &inputs,
                                     const std::vector<std::shared_ptr<Tensor>> &outputs) {
        EXPECT_EQ(Values(inputs[0]), (Floats{1, 2}));
        EXPECT_EQ(Values(outputs[0]), (Floats{3, 8}));
        log.push_back("post");
    });
    mul->Apply({a, b});
    EXPECT_EQ(log, (Log{"pre", "post"}));
}

TEST(HookDocument, FunctionBackwardHooksSeeGradients) {
    auto a = Leaf({1, 2}), b = Leaf({3, 4});
    auto mul = std::make_shared<autograd::Mul>();
    Log log;
    mul->RegisterBackwardPreHook([&](autograd::Function *, const std::vector<std::shared_ptr<Tensor>> &grad_outputs) {
        EXPECT_EQ(Values(grad_outputs[0]), (Floats{1, 10}));
        log.push_back("pre");
    });
    mul->RegisterBackwardPostHook([&](autograd::Function *, const std::vector<std::shared_ptr<Tensor>> &grad_inputs,
                                      const std::vector<std::shared_ptr<Tensor>> &grad_outputs) {
        ASSERT_EQ(grad_inputs.size(), 2U);
        EXPECT_EQ(Values(grad_inputs[0]), (Floats{3, 40}));
        EXPECT_EQ(Values(grad_inputs[1]), (Floats{1, 20}));
        EXPECT_EQ(Values(grad_outputs[0]), (Floats{1, 10}));
        log.push_back("post");
    });
    mul->Apply({a, b})[0]->Backward(test::Of({1, 10}));
    EXPECT_EQ(log, (Log{"pre", "post"}));
}

TEST(HookDocument, BackwardHooksWaitForAllGradients) {
    // y feeds two products: its function's hooks run once, with the sum.
    auto x = Leaf(1);
    auto twice = std::make_shared<autograd::MulScalar>(2);
    int calls = 0;
    twice->RegisterBackwardPreHook([&](autograd::Function *, const TensorList &grad_outputs) {
        ++calls;
        EXPECT_EQ(Values(grad_outputs[0]), (Floats{7}));
    });
    auto y = twice->Apply({x})[0];
    (y * 3 + y * 4)->Backward();
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(Values(x->grad()), (Floats{14}));
}

TEST(HookDocument, BackwardPartialOutsideOfAPassBeginsOne) {
    auto x = Leaf({1, 2});
    auto twice = std::make_shared<autograd::MulScalar>(2);
    auto y = twice->Apply({x})[0];
    int calls = 0;
    twice->RegisterBackwardPreHook([&](autograd::Function *, const TensorList &) { ++calls; });
    twice->BackwardPartial(test::Of({1, 10}), 0);
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(Values(x->grad()), (Floats{2, 20}));
}

// ---- 3. One hook.h for both -----------------------------------------------------------------------------------------

TEST(HookDocument, HandlesShareOneBase) {
    static_assert(std::is_abstract_v<HookHandle> && std::has_virtual_destructor_v<HookHandle>);
    static_assert(std::is_base_of_v<HookHandle, HookHandleImpl<autograd::FunctionPreHook>>);
    static_assert(std::is_base_of_v<HookHandle, HookHandleImpl<nn::ModulePostHook>>);
    static_assert(std::is_same_v<nn::ModulePreHook,
                                 std::function<void(nn::Module *, const std::vector<std::shared_ptr<Tensor>> &)>>);
    static_assert(std::is_same_v<autograd::Function::FunctionPostHook,
                                 std::function<void(autograd::Function *, const std::vector<std::shared_ptr<Tensor>> &,
                                                    const std::vector<std::shared_ptr<Tensor>> &)>>);
    Twice module;
    const auto pre = [](nn::Module *, const TensorList &) {};
    const auto post = [](nn::Module *, const TensorList &, const TensorList &) {};
    // The document's types are taken as they are.
    std::vector<std::shared_ptr<HookHandle>> handles = {module.RegisterForwardPreHook(nn::ModulePreHook(pre)),
                                                        module.RegisterForwardPostHook(nn::ModulePostHook(post)),
                                                        module.RegisterBackwardPreHook(nn::ModulePreHook(pre)),
                                                        module.RegisterBackwardPostHook(nn::ModulePostHook(post))};
    for (const auto &handle : handles) {
        EXPECT_TRUE(handle->IsActive());
        handle->Remove();
        EXPECT_FALSE(handle->IsActive());
    }
}

// ---- 4. Removal -----------------------------------------------------------------------------------------------------

TEST(HookDocument, RemovedHookIsSkippedAndOthersRun) {
    auto a = Leaf(1), b = Leaf(2);
    auto add = std::make_shared<autograd::Add>();
    int first = 0, second = 0, third = 0;
    auto handle1 = add->RegisterForwardPreHook([&](autograd::Function *, const TensorList &) { ++first; });
    auto handle2 = add->RegisterForwardPreHook([&](autograd::Function *, const TensorList &) { ++second; });
    auto handle3 = add->RegisterForwardPreHook([&](autograd::Function *, const TensorList &) { ++third; });
    add->Apply({a, b});
    handle2->Remove();
    add->Apply({a, b});
    handle1->Remove();
    handle1->Remove();
    add->Apply({a, b});
    EXPECT_EQ(first, 2);
    EXPECT_EQ(second, 1);
    EXPECT_EQ(third, 3);
    EXPECT_EQ(handle3->Calls(), 3U);
}

// ---- 5. The way of a call -------------------------------------------------------------------------------------------

TEST(HookDocument, OrderOfAForwardAndABackwardPass) {
    Log log;
    auto module = std::make_shared<Twice>(&log);
    module->RegisterForwardPreHook([&](nn::Module *, const TensorList &) { log.push_back("forward pre"); });
    module->RegisterForwardPostHook(
        [&](nn::Module *, const TensorList &, const TensorList &) { log.push_back("forward post"); });
    module->RegisterBackwardPreHook([&](nn::Module *, const TensorList &) { log.push_back("backward pre"); });
    module->RegisterBackwardPostHook(
        [&](nn::Module *, const TensorList &, const TensorList &) { log.push_back("backward post"); });
    auto x = Leaf(1);
    x->RegisterHook([&](const TensorPtr &) { log.push_back("x"); });
    auto y = (*module)({x})[0];
    EXPECT_EQ(log, (Log{"forward pre", "Forward", "forward post"}));
    log.clear();
    y->Backward();
    EXPECT_EQ(log, (Log{"backward pre", "backward post", "x"}));
}

// ---- 7. Notes -------------------------------------------------------------------------------------------------------

TEST(HookDocument, HooksRunInOrderOfRegistration) {
    Twice module;
    Log log;
    module.RegisterForwardPreHook([&](nn::Module *, const TensorList &) { log.push_back("1"); });
    module.RegisterForwardPreHook([&](nn::Module *, const TensorList &) { log.push_back("2"); });
    module.RegisterForwardPreHook([&](nn::Module *, const TensorList &) { log.push_back("0"); }, {.prepend = true});
    module({Leaf(1)});
    EXPECT_EQ(log, (Log{"0", "1", "2"}));
}

// pytorch#25888: wanted there for C++.
TEST(HookDocument, HooksMayReplaceWhatTheyAreGiven) {
    auto module = std::make_shared<Twice>();
    auto x = Leaf({1, 2});
    module->RegisterForwardPreHook(
        [](nn::Module *, const TensorList &inputs) { return TensorList{inputs[0]->Add(10)}; });
    module->RegisterForwardPostHook([](nn::Module *, const TensorList &, const TensorList &outputs) {
        return std::optional<TensorList>(TensorList{outputs[0]->Add(100)});
    });
    module->RegisterBackwardPreHook(
        [](nn::Module *, const TensorList &grad_outputs) { return grad_outputs[0]->Mul(3); });
    module->RegisterBackwardPostHook([](nn::Module *, const TensorList &grad_inputs, const TensorList &grad_outputs) {
        EXPECT_EQ(Values(grad_outputs[0]), (Floats{3, 3}));
        return TensorList{grad_inputs[0]->Mul(5)};
    });
    auto y = (*module)({x})[0];
    EXPECT_EQ(Values(y), (Floats{122, 124}));
    y->Sum()->Backward();
    EXPECT_EQ(Values(x->grad()), (Floats{30, 30}));
}

TEST(HookDocument, EmptyReplacementsChangeNothing) {
    auto module = std::make_shared<Twice>();
    module->RegisterForwardPreHook([](nn::Module *, const TensorList &) { return TensorList{}; });
    module->RegisterForwardPostHook(
        [](nn::Module *, const TensorList &, const TensorList &) -> TensorPtr { return nullptr; });
    module->RegisterBackwardPreHook([](nn::Module *, const TensorList &) -> HookResult { return std::nullopt; });
    auto x = Leaf({1, 2});
    auto y = (*module)({x})[0];
    y->Sum()->Backward();
    EXPECT_EQ(Values(y), (Floats{2, 4}));
    EXPECT_EQ(Values(x->grad()), (Floats{2, 2}));
}

TEST(HookDocument, FunctionHooksMayReplaceToo) {
    auto a = Leaf(1), b = Leaf(2);
    auto mul = std::make_shared<autograd::Mul>();
    mul->RegisterForwardPostHook(
        [](autograd::Function *, const TensorList &, const TensorList &outputs) { return outputs[0]->Mul(10); });
    mul->RegisterBackwardPreHook(
        [](autograd::Function *, const TensorList &grad_outputs) { return grad_outputs[0]->Mul(2); });
    mul->RegisterBackwardPostHook([](autograd::Function *, const TensorList &grad_inputs, const TensorList &) {
        return TensorList{grad_inputs[0], nullptr};
    });
    auto y = mul->Apply({a, b})[0];
    EXPECT_EQ(Values(y), (Floats{20}));
    y->Backward();
    EXPECT_EQ(Values(a->grad()), (Floats{40}));
    EXPECT_EQ(b->grad(), nullptr);
}

}  // namespace
}  // namespace infini_train
