// Handles, changes of the lists while they run, and exceptions in hooks.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/elementwise.h"
#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/common/hook.h"
#include "infini_train/include/tensor.h"

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
using Order = std::vector<std::string>;

std::shared_ptr<test::Lambda> Identity() {
    return MakeModule([](const TensorList &in) { return TensorList{in[0] * 1}; });
}

TEST(HookHandle, DroppingTheHandleKeepsTheHook) {
    auto module = Identity();
    int calls = 0;
    module->RegisterForwardPreHook([&](nn::Module *, const TensorList &) { ++calls; });
    (*module)({Leaf(1)});
    EXPECT_EQ(calls, 1);
}

TEST(HookHandle, OutlivesItsOwner) {
    std::vector<std::shared_ptr<HookHandle>> handles;
    {
        auto module = Identity();
        handles.push_back(module->RegisterForwardPreHook([](nn::Module *, const TensorList &) {}));
        auto x = Leaf(1);
        handles.push_back(x->RegisterHook([](const TensorPtr &) {}));
        handles.push_back((x * 2)->RegisterHook([](const TensorPtr &) {}));
        auto function = std::make_shared<autograd::Neg>();
        handles.push_back(function->RegisterForwardPreHook([](autograd::Function *, const TensorList &) {}));
    }
    for (const auto &handle : handles) {
        EXPECT_FALSE(handle->IsActive());
        handle->Disable();
        handle->Remove();
        handle->Remove();
    }
}

TEST(HookHandle, RemovalFreesWhatTheHookHolds) {
    auto module = Identity();
    auto held = std::make_shared<int>(0);
    auto handle = module->RegisterForwardPreHook([held](nn::Module *, const TensorList &) {});
    EXPECT_EQ(held.use_count(), 2);
    handle->Remove();
    EXPECT_EQ(held.use_count(), 1);
}

TEST(HookHandle, DisableEnableNameAndCalls) {
    auto module = Identity();
    auto handle = module->RegisterForwardPreHook([](nn::Module *, const TensorList &) {}, {.name = "watch"});
    (*module)({Leaf(1)});
    handle->Disable();
    EXPECT_FALSE(handle->IsActive());
    (*module)({Leaf(1)});
    handle->Enable();
    (*module)({Leaf(1)});
    EXPECT_EQ(handle->Calls(), 2U);
    EXPECT_EQ(handle->Name(), "watch");
    auto asleep = module->RegisterForwardPreHook([](nn::Module *, const TensorList &) {}, {.enabled = false});
    (*module)({Leaf(1)});
    EXPECT_EQ(asleep->Calls(), 0U);
}

TEST(HookHandle, LimitedNumberOfCalls) {
    auto module = Identity();
    int calls = 0;
    auto handle = module->RegisterForwardPreHook([&](nn::Module *, const TensorList &) { ++calls; }, {.max_calls = 2});
    for (int i = 0; i < 4; ++i) {
        (*module)({Leaf(1)});
    }
    EXPECT_EQ(calls, 2);
    EXPECT_FALSE(handle->IsActive());
}

// pytorch-lightning#21945
TEST(HookHandle, ScopedHookIsRemovedOnUnwinding) {
    auto module = Identity();
    int calls = 0;
    try {
        const ScopedHook scoped(module->RegisterForwardPreHook([&](nn::Module *, const TensorList &) { ++calls; }));
        (*module)({Leaf(1)});
        throw std::runtime_error("out");
    } catch (const std::runtime_error &) {
    }
    {
        HookGroup group;
        group.Add(module->RegisterForwardPreHook([&](nn::Module *, const TensorList &) { calls += 10; }));
        group.Add(module->RegisterForwardPreHook([&](nn::Module *, const TensorList &) { calls += 100; }));
        group.Disable();
        (*module)({Leaf(1)});
        group.Enable();
        (*module)({Leaf(1)});
    }
    (*module)({Leaf(1)});
    EXPECT_EQ(calls, 111);
}

TEST(HookList, RemovedDuringThePassIsSkippedAddedWaits) {
    auto module = Identity();
    Order order;
    std::shared_ptr<HookHandle> second;
    bool once = true;
    module->RegisterForwardPreHook([&](nn::Module *mod, const TensorList &) {
        order.push_back("first");
        second->Remove();
        if (std::exchange(once, false)) {
            mod->RegisterForwardPreHook([&](nn::Module *, const TensorList &) { order.push_back("added"); });
            mod->RegisterForwardPostHook(
                [&](nn::Module *, const TensorList &, const TensorList &) { order.push_back("added post"); });
        }
    });
    second = module->RegisterForwardPreHook([&](nn::Module *, const TensorList &) { order.push_back("second"); });
    (*module)({Leaf(1)});
    EXPECT_EQ(order, (Order{"first"}));
    (*module)({Leaf(1)});
    EXPECT_EQ(order, (Order{"first", "first", "added", "added post"}));
}

TEST(HookList, AddedDuringABackwardPassWaitsForTheNext) {
    auto x = Leaf(1);
    auto y = x * 2;
    Order order;
    bool once = true;
    y->RegisterHook([&](const TensorPtr &) {
        order.push_back("y");
        if (std::exchange(once, false)) {
            x->RegisterHook([&](const TensorPtr &) { order.push_back("x"); });
        }
    });
    y->Backward(nullptr, true);
    EXPECT_EQ(order, (Order{"y"}));
    y->Backward();
    EXPECT_EQ(order, (Order{"y", "y", "x"}));
}

TEST(HookList, RemovesItselfWhileRunning) {
    auto module = Identity();
    int calls = 0;
    std::shared_ptr<HookHandle> handle;
    handle = module->RegisterForwardPreHook([&, big = std::vector<int>(100, 7)](nn::Module *, const TensorList &) {
        handle->Remove();
        calls += big[99];  // what it holds must still be there
    });
    (*module)({Leaf(1)});
    (*module)({Leaf(1)});
    EXPECT_EQ(calls, 7);
}

// pytorch#181763: one fire a call, whatever other threads register and remove meanwhile.
TEST(HookList, ThreadsShareAModule) {
    auto module = Identity();
    std::atomic<int> calls{0};
    module->RegisterForwardPreHook([&](nn::Module *, const TensorList &) { ++calls; });
    module->RegisterBackwardPostHook([&](nn::Module *, const TensorList &, const TensorList &) { ++calls; });
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
        threads.emplace_back([&] {
            for (int i = 0; i < 100; ++i) {
                (*module)({Leaf(1)})[0]->Backward();
                module->RegisterForwardPostHook([](nn::Module *, const TensorList &, const TensorList &) {})->Remove();
            }
        });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    EXPECT_EQ(calls, 600);
}

// ---- Exceptions -----------------------------------------------------------------------------------------------------

struct OwnException : std::exception {
    const char *what() const noexcept override { return "mine"; }
};

using IntHook = std::function<void(int)>;

void RunAll(const HookList<IntHook> &list, int value) {
    list.ForEach(UINT64_MAX, [&](const IntHook &hook, const internal::HookState &) { hook(value); });
}

// Lists change from several threads while others run them; what was removed is freed, and only then.
TEST(HookList, ThreadsChangeItWhileOthersRunIt) {
    HookList<IntHook> list;
    const auto token = std::make_shared<int>(0);
    std::atomic<int> calls{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t) {
        threads.emplace_back([&] {
            for (int i = 0; i < 1000; ++i) {
                RunAll(list, i);
            }
        });
        threads.emplace_back([&, t] {
            std::vector<std::shared_ptr<HookHandle>> handles;
            for (int i = 0; i < 300; ++i) {
                const HookOptions options{.prepend = i % 2 == 0, .max_calls = i % 3 == 0 ? 5U : 0U};
                handles.push_back(list.Add([&calls, token](int) { calls += *token == 0; }, options));
                if (i % 4 == t) {
                    handles[handles.size() / 2]->Remove();
                }
                if (i % 50 == 0) {
                    RunAll(HookList<IntHook>(list), i);
                }
            }
            for (const auto &handle : handles) {
                handle->Remove();
            }
        });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    EXPECT_EQ(list.size(), 0U);
    EXPECT_EQ(token.use_count(), 1);
}

TEST(HookList, GoneWhileItsHooksRun) {
    auto list = std::make_unique<HookList<IntHook>>();
    const auto token = std::make_shared<int>(0);
    int calls = 0;
    list->Add([&, token](int) {
        list.reset();
        ++calls;
    });
    list->Add([&, token](int value) { calls += value; });
    RunAll(*list, 10);
    EXPECT_EQ(calls, 11);
    EXPECT_EQ(token.use_count(), 1);
}

TEST(HookException, KeepsTypeAndTextAndNamesHookAndModule) {
    auto outer = MakeModule([](const TensorList &in) { return in; }, "Net");
    auto inner = Identity();
    outer->RegisterModule("fc", inner);
    auto handle = inner->RegisterForwardPreHook(
        [](nn::Module *, const TensorList &) { throw std::invalid_argument("bad input"); }, {.name = "check"});
    const std::string text = Thrown<std::invalid_argument>([&] { (*inner)({Leaf(1)}); });
    EXPECT_EQ(text, "bad input [forward pre hook 'check' of fc (Lambda)] [in module fc (Lambda)]");
    handle->Remove();
    inner->RegisterForwardPreHook([](nn::Module *, const TensorList &) { throw OwnException(); });
    EXPECT_EQ(Thrown<OwnException>([&] { (*inner)({Leaf(1)}); }), "mine");
}

TEST(HookException, InBackwardLeavesTheEngineWell) {
    auto x = Leaf(2);
    auto handle = x->RegisterHook([](const TensorPtr &) { throw ValueError("stop"); }, {.name = "guard"});
    auto y = x->Square();
    const std::string text = Thrown<ValueError>([&] { y->Backward(); });
    EXPECT_TRUE(Contains(text, "stop") && Contains(text, "'guard'")) << text;
    EXPECT_TRUE(autograd::GradMode::IsEnabled());
    EXPECT_EQ(x->grad(), nullptr);
    handle->Remove();
    x->Square()->Backward();
    EXPECT_EQ(Values(x->grad()), (Floats{4}));
}

TEST(HookException, InAModulesBackwardHook) {
    auto module = Identity();
    auto handle = module->RegisterBackwardPreHook(
        [](nn::Module *, const TensorList &) { throw std::runtime_error("no"); }, {.name = "bp"});
    auto x = Leaf(1);
    const std::string text = Thrown<std::runtime_error>([&] { (*module)({x})[0]->Backward(); });
    EXPECT_TRUE(Contains(text, "no [backward pre hook 'bp' of Lambda]")) << text;
    handle->Remove();
    (*module)({x})[0]->Backward();
    EXPECT_EQ(Values(x->grad()), (Floats{1}));
}

TEST(HookException, AlwaysCalledHooksRunAfterAnException) {
    auto module = MakeModule([](const TensorList &) -> TensorList { throw ValueError("forward failed"); });
    Order order;
    const auto note = [&](const char *name) {
        return [&order, name](nn::Module *, const TensorList &, const TensorList &outputs) {
            order.push_back(name + std::to_string(outputs.size()));
        };
    };
    module->RegisterForwardPostHook(note("plain"));
    module->RegisterForwardPostHook(note("always"), {.always_call = true});
    EXPECT_NE(Thrown<ValueError>([&] { (*module)({Leaf(1)}); }), "");
    EXPECT_EQ(order, (Order{"always0"}));
}

TEST(HookException, AlwaysCalledHooksRunOnce) {
    auto module = Identity();
    Order order;
    const auto note = [&](const char *name) {
        return [&order, name](nn::Module *, const TensorList &, const TensorList &) { order.push_back(name); };
    };
    module->RegisterForwardPostHook(note("before"), {.always_call = true});
    module->RegisterForwardPostHook(
        [](nn::Module *, const TensorList &, const TensorList &) { throw ValueError("hook failed"); });
    module->RegisterForwardPostHook(note("plain"));
    module->RegisterForwardPostHook(note("after"), {.always_call = true});
    EXPECT_NE(Thrown<ValueError>([&] { (*module)({Leaf(1)}); }), "");
    EXPECT_EQ(order, (Order{"before", "after"}));
}

// accelerate#1835: see ModuleClone in test/nn for copies of modules with their hooks.

}  // namespace
}  // namespace infini_train
