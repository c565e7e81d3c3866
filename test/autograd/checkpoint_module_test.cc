// Checkpoint: memory, hooks and modules.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/checkpoint.h"
#include "infini_train/include/autograd/function.h"
#include "infini_train/include/autograd/grad.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/core/allocator.h"
#include "infini_train/include/core/generator.h"
#include "infini_train/include/nn/checkpoint.h"
#include "infini_train/include/nn/modules/activations.h"
#include "infini_train/include/nn/modules/container.h"
#include "infini_train/include/nn/modules/dropout.h"
#include "infini_train/include/nn/modules/linear.h"
#include "infini_train/include/tensor.h"

#include "test/support/modules.h"
#include "test/support/tensors.h"

namespace infini_train {
namespace {

using autograd::Checkpoint;
using autograd::IsRecomputing;
using test::Contains;
using test::Floats;
using test::Leaf;
using test::MakeModule;
using test::Thrown;
using test::Values;
using Body = std::function<TensorList(const TensorList &)>;

// ---- Memory ---------------------------------------------------------------------------------------------------------

size_t Live() {
    return GetAllocator(Device()).Stats().live;
}

// The most that a forward and backward pass holds at once, in units of one activation.
double Peak(const std::function<TensorPtr(const TensorPtr &)> &loss) {
    constexpr int64_t kElements = 1 << 14;
    auto x = Tensor::Full({kElements}, 0.5)->RequiresGrad();
    const size_t start = Live();
    GetAllocator(Device()).ResetPeak();
    loss(x)->Backward();
    const double bytes = static_cast<double>(GetAllocator(Device()).Stats().peak - start);
    return bytes / (kElements * sizeof(float));
}

constexpr int kDepth = 64;

TensorPtr Layers(TensorPtr x, int count) {
    for (int i = 0; i < count; ++i) {
        x = x->Tanh();  // saves its output
    }
    return x;
}

TEST(CheckpointMemory, GrowsWithTheRootOfTheDepth) {
    const double plain = Peak([](const TensorPtr &x) { return Layers(x, kDepth)->Sum(); });
    const double checkpointed = Peak([](const TensorPtr &x) {
        TensorPtr h = x;
        for (int i = 0; i < kDepth; i += 8) {
            h = Checkpoint([](const TensorList &in) { return TensorList{Layers(in[0], 8)}; }, {h})[0];
        }
        return h->Sum();
    });
    EXPECT_GE(plain, kDepth);
    // The inputs of 8 parts, 8 activations of one of them, and a few gradients.
    EXPECT_LE(checkpointed, 8 + 8 + 6);
}

// Halves of halves: the memory grows with the logarithm of the depth, as all that a pass holds is let go of in time.
TensorPtr Halves(const TensorPtr &x, int count) {
    const auto half = [count](const TensorList &in) {
        return TensorList{count == 2 ? in[0]->Tanh() : Halves(in[0], count / 2)};
    };
    return Checkpoint(half, {Checkpoint(half, {x})[0]})[0];
}

TEST(CheckpointMemory, NestedCheckpointsLetGoInTime) {
    const double nested = Peak([](const TensorPtr &x) { return Halves(x, kDepth)->Sum(); });
    EXPECT_LE(nested, 6 + 6 + 6);
}

TEST(CheckpointMemory, RetainedGraphsAndPartialPassesKeepNothing) {
    auto x = Tensor::Full({1 << 14}, 0.5)->RequiresGrad();
    auto y = Checkpoint(
        [](const TensorList &in) {
            auto h = Layers(in[0], 8);
            return TensorList{h->Sum() + h->Exp()->Sum()};
        },
        {x})[0];
    auto middle = x * 1;
    auto z = Checkpoint([&](const TensorList &in) { return TensorList{Layers(in[0], 8)->Mul(middle)->Sum()}; }, {x})[0];
    const size_t start = Live();
    autograd::Grad({y}, {x}, {}, true);
    EXPECT_EQ(Live(), start);
    autograd::Grad({z}, {middle}, {}, true);  // uses one of the tensors that are computed again
    EXPECT_EQ(Live(), start);
}

TEST(CheckpointMemory, NothingLeaks) {
    const auto check = [](bool backward, bool nested) {
        const auto kept = std::make_shared<int>(0);
        const std::weak_ptr<int> watched = kept;
        std::weak_ptr<autograd::Function> node;
        const size_t start = Live();
        {
            auto x = Leaf({1, 2, 3});
            const Body body = [kept](const TensorList &in) { return TensorList{in[0]->Exp()->Square()}; };
            const Body outer = [&](const TensorList &in) { return Checkpoint(body, {in[0]->Sin()}); };
            auto y = Checkpoint(nested ? outer : body, {x * 2})[0]->Sum();
            node = y->grad_fn();
            if (backward) {
                auto g = autograd::Grad({y}, {x}, {}, true, /*create_graph=*/true)[0];
                g->Sum()->Backward(nullptr, true);
                y->Backward();
                x->set_grad(nullptr);
            }
        }
        EXPECT_TRUE(node.expired());
        EXPECT_EQ(kept.use_count(), 1);
        EXPECT_EQ(Live(), start);
    };
    for (const bool backward : {false, true}) {
        check(backward, false);
        check(backward, true);
    }
}

// What the function holds goes with the saved tensors, before the graph itself does.
TEST(CheckpointMemory, FunctionIsFreedByThePass) {
    auto x = Leaf(2);
    auto kept = std::make_shared<int>(0);
    auto y = Checkpoint([kept](const TensorList &in) { return TensorList{in[0]->Square()}; }, {x})[0];
    EXPECT_EQ(kept.use_count(), 2);
    y->Backward();
    EXPECT_EQ(kept.use_count(), 1);
}

TEST(CheckpointMemory, InputThatJoinsTheGraphIsNoCycle) {
    std::weak_ptr<autograd::Function> node;
    {
        auto w = Leaf(2);
        auto h = w * 1;
        auto y = Checkpoint([&](const TensorList &in) { return TensorList{in[0]->Mul(w)}; }, {h})[0];
        h->Add_(y);  // h is now made from what was computed from it
        node = y->grad_fn();
        const auto text = Thrown<AutogradError>([&] { h->Backward(); });
        EXPECT_TRUE(Contains(text, "Checkpoint: ") && Contains(text, "changed in place since")) << text;
    }
    EXPECT_TRUE(node.expired());
}

TEST(CheckpointMemory, VeryManyInARow) {
    constexpr int kCount = 20000;
    auto x = Leaf(0.5F);
    const auto chain = [&] {
        TensorPtr h = x;
        for (int i = 0; i < kCount; ++i) {
            h = Checkpoint([](const TensorList &in) { return TensorList{in[0]->Square()->Sqrt()}; }, {h})[0];
        }
        return h;
    };
    chain();
    chain()->Backward();
    EXPECT_FLOAT_EQ(x->grad()->Item<float>(), 1);
}

// ---- Hooks and modules ----------------------------------------------------------------------------------------------

// pytorch#81296
TEST(CheckpointHooks, HooksOfASharedParameterFireOnce) {
    auto w = Leaf(3), x = Leaf(2);
    auto module = MakeModule([&](const TensorList &in) { return TensorList{in[0]->Mul(w)}; });
    std::vector<std::string> seen;
    w->RegisterHook([&](const TensorPtr &grad) { seen.push_back("T " + std::to_string(grad->Item<int>())); });
    w->RegisterPostAccumulateGradHook(
        [&](const TensorPtr &leaf) { seen.push_back("PA " + std::to_string(leaf->grad()->Item<int>())); });
    (*module)(Checkpoint(module, {x}))[0]->Backward();
    EXPECT_EQ(seen, (std::vector<std::string>{"T 12", "PA 12"}));
    EXPECT_EQ(Values(x->grad()), (Floats{9}));
}

// pytorch#143573
TEST(CheckpointHooks, ForwardHooksRunAgainDuringBackward) {
    auto x = Leaf(2);
    auto square = MakeModule([](const TensorList &in) { return TensorList{in[0]->Square()}; }, "Square");
    auto negate = MakeModule([](const TensorList &in) { return TensorList{in[0]->Neg()}; }, "Negate");
    auto net = std::make_shared<nn::Sequential>(square, negate);
    std::vector<std::string> seen;
    bool in_backward = false;
    for (const auto &module : {square, negate}) {
        // The name alone: a hook that held its own module would be a cycle.
        const auto note = [&, name = module->type()](const std::string &what) {
            seen.push_back(name + " " + what + (IsRecomputing() ? " again" : ""));
        };
        module->RegisterForwardPreHook([&, note](nn::Module *, const TensorList &) {
            EXPECT_EQ(IsRecomputing(), in_backward);
            note("FP");
        });
        module->RegisterForwardPostHook([note](nn::Module *, const TensorList &, const TensorList &) { note("FH"); });
        module->RegisterBackwardPreHook([note](nn::Module *, const TensorList &) { note("BP"); });
        module->RegisterBackwardPostHook([note](nn::Module *, const TensorList &grads, const TensorList &) {
            note("BH " + std::to_string(grads[0]->Item<int>()));
        });
    }
    auto y = Checkpoint(net, {x})[0];
    EXPECT_EQ(seen, (std::vector<std::string>{"Square FP", "Square FH", "Negate FP", "Negate FH"}));
    seen.clear();
    in_backward = true;
    y->Backward();
    // The second call stops in Square, which saves the last tensor; backward hooks run once.
    EXPECT_EQ(seen,
              (std::vector<std::string>{"Negate BP", "Negate BH -1", "Square BP", "Square FP again", "Square BH -4"}));
}

// A hook that always runs does so at an early stop, as if the module had thrown.
TEST(CheckpointHooks, AlwaysCalledHooksSeeTheEarlyStop) {
    auto x = Leaf(2);
    auto square = MakeModule([](const TensorList &in) { return TensorList{in[0]->Square()}; });
    std::vector<size_t> outputs;
    square->RegisterForwardPostHook(
        [&](nn::Module *, const TensorList &, const TensorList &out) { outputs.push_back(out.size()); },
        {.always_call = true});
    Checkpoint(square, {x})[0]->Backward();
    EXPECT_EQ(outputs, (std::vector<size_t>{1, 0}));
    EXPECT_EQ(Values(x->grad()), (Floats{4}));
}

TEST(CheckpointHooks, TensorHooksInTheFunctionFireOnce) {
    auto x = Leaf(2);
    Floats seen;
    auto y = Checkpoint(
        [&](const TensorList &in) {
            auto h = in[0]->Square();
            h->RegisterHook([&](const TensorPtr &grad) {
                seen.push_back(grad->Item<float>());
                return grad * 10;
            });
            return TensorList{h->Square()};
        },
        {x})[0];
    y->Backward();
    EXPECT_EQ(seen, (Floats{8}));
    EXPECT_EQ(Values(x->grad()), (Floats{320}));
}

TEST(CheckpointHooks, TheGraphKeepsTheModule) {
    auto x = Leaf({1, 2});
    auto layer = std::make_shared<nn::Sequential>(std::make_shared<nn::Linear>(2, 2), std::make_shared<nn::Tanh>());
    const std::weak_ptr<nn::Module> watched = layer;
    auto y = Checkpoint(layer, {x})[0]->Sum();
    layer = nullptr;
    EXPECT_FALSE(watched.expired());
    y->Backward();
    EXPECT_TRUE(watched.expired());
    EXPECT_THROW(Checkpoint(layer, {x}), ValueError);
}

TEST(CheckpointSequential, EveryBitIsTheSameForAnyNumberOfSegments) {
    auto net = std::make_shared<nn::Sequential>();
    for (int i = 0; i < 7; ++i) {
        net->Append(std::make_shared<nn::Linear>(8, 8));
        net->Append(std::make_shared<nn::Tanh>());
        net->Append(std::make_shared<nn::Dropout>(0.25));
    }
    auto x = Tensor::Randn({4, 8})->RequiresGrad();
    const auto gradients = [&](const TensorPtr &y) {
        std::vector<Floats> result = {Values(y)};
        net->ZeroGrad();
        x->ZeroGrad();
        y->Sum()->Backward();
        result.push_back(Values(x->grad()));
        for (const auto &parameter : net->Parameters()) {
            result.push_back(Values(parameter->grad()));
        }
        return result;
    };
    ManualSeed(5);
    const auto expected = gradients((*net)({x})[0]);
    for (const int segments : {1, 2, 4, 20, 21}) {
        int calls = 0;
        const ScopedHook hook((*net)[0]->RegisterForwardPreHook([&](nn::Module *, const TensorList &) { ++calls; }));
        ManualSeed(5);
        EXPECT_EQ(gradients(nn::CheckpointSequential(net, segments, {x})[0]), expected) << segments;
        EXPECT_EQ(calls, segments == 1 ? 1 : 2);  // the last segment isn't computed again
    }
    for (const int segments : {-1, 0, 22}) {
        const auto text = Thrown<ValueError>([&] { nn::CheckpointSequential(net, segments, {x}); });
        EXPECT_TRUE(Contains(text, "expected 1 to 21 segments")) << text;
    }
    EXPECT_THROW(nn::CheckpointSequential(nullptr, 1, {x}), ValueError);
}

}  // namespace
}  // namespace infini_train
