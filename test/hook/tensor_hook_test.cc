// Hooks on the gradients of tensors, and the order of all kinds of hooks. Each test names the public report that its
// case comes from.

#include "infini_train/include/autograd/tensor_hook.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/accumulate.h"
#include "infini_train/include/autograd/elementwise.h"
#include "infini_train/include/autograd/grad.h"
#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/tensor.h"

#include "test/support/modules.h"
#include "test/support/tensors.h"

namespace infini_train {
namespace {

using test::Contains;
using test::Floats;
using test::Leaf;
using test::MakeModule;
using test::Of;
using test::Thrown;
using test::Values;
using Order = std::vector<std::string>;

// ---- Order ----------------------------------------------------------------------------------------------------------

TEST(HookOrder, InteriorTensor) {
    // Tensor hooks, each seeing the result of the one before; the retained gradient; the function's pre hook; Backward;
    // its post hook.
    auto x = Leaf(1);
    auto function = std::make_shared<autograd::MulScalar>(3);
    auto y = function->Apply({x})[0];
    Order order;
    Floats first, second, pre;
    y->RegisterHook([&](const TensorPtr &grad) {
        order.push_back("T1");
        first = Values(grad);
        return grad->Mul(2);
    });
    y->RegisterHook([&](const TensorPtr &grad) {
        order.push_back("T2");
        second = Values(grad);
        return grad->Mul(5);
    });
    y->RetainGrad();
    function->RegisterBackwardPreHook([&](autograd::Function *, const TensorList &grads) {
        order.push_back("NP");
        pre = Values(grads[0]);
        EXPECT_EQ(Values(y->grad()), (Floats{10}));
    });
    function->RegisterBackwardPostHook([&](autograd::Function *, const TensorList &grad_inputs, const TensorList &) {
        order.push_back("NQ");
        EXPECT_EQ(Values(grad_inputs[0]), (Floats{30}));
    });
    y->Backward();
    EXPECT_EQ(order, (Order{"T1", "T2", "NP", "NQ"}));
    EXPECT_EQ(first, (Floats{1}));
    EXPECT_EQ(second, (Floats{2}));
    EXPECT_EQ(pre, (Floats{10}));
    EXPECT_EQ(Values(x->grad()), (Floats{30}));
}

TEST(HookOrder, Leaf) {
    auto x = Leaf(1);
    Order order;
    x->RegisterHook([&](const TensorPtr &) { order.push_back("T"); });
    x->RegisterPostAccumulateGradHook([&](const TensorPtr &leaf) {
        order.push_back("PA");
        EXPECT_EQ(leaf, x);
        EXPECT_EQ(Values(leaf->grad()), (Floats{2}));
    });
    auto y = x * 2;
    const auto accumulate = autograd::NextFunctions(*y->grad_fn())[0].first;
    EXPECT_EQ(accumulate->type(), "AccumulateGrad");
    accumulate->RegisterBackwardPreHook([&](autograd::Function *, const TensorList &) {
        order.push_back("NP");
        EXPECT_EQ(x->grad(), nullptr);
    });
    accumulate->RegisterBackwardPostHook(
        [&](autograd::Function *, const TensorList &, const TensorList &) { order.push_back("NQ"); });
    y->Backward();
    EXPECT_EQ(order, (Order{"T", "NP", "PA", "NQ"}));
}

TEST(HookOrder, TensorHookRunsJustBeforeItsNode) {
    auto x = Leaf(1), w1 = Leaf(1), w2 = Leaf(1);
    auto h1 = x * w1;
    auto h2 = h1 * w2;
    Order order;
    const auto note = [&](const TensorPtr &tensor, const char *name) {
        tensor->RegisterHook([&order, name](const TensorPtr &) { order.push_back(name); });
    };
    note(w1, "w1");
    note(w2, "w2");
    note(h1, "h1");
    note(h2, "h2");
    h2->Backward();
    EXPECT_EQ(order, (Order{"h2", "w2", "h1", "w1"}));
}

TEST(HookOrder, NestedModules) {
    Order order;
    auto i = MakeModule([](const TensorList &in) { return TensorList{in[0] * 2}; }, "i");
    auto j = MakeModule([](const TensorList &in) { return TensorList{in[0] * 3}; }, "j");
    auto outer = MakeModule([&](const TensorList &in) { return (*j)((*i)(in)); }, "outer");
    for (const auto &module : {i, j, outer}) {
        const std::string name = module->type();
        module->RegisterBackwardPreHook(
            [&order, name](nn::Module *, const TensorList &) { order.push_back(name + ".BP"); });
        module->RegisterBackwardPostHook(
            [&order, name](nn::Module *, const TensorList &, const TensorList &) { order.push_back(name + ".BH"); });
    }
    auto x = Leaf(1);
    auto y = (*outer)({x})[0];
    x->RegisterHook([&](const TensorPtr &) { order.push_back("x.T"); });
    y->RegisterHook([&](const TensorPtr &) { order.push_back("y.T"); });
    y->Backward();
    EXPECT_EQ(order, (Order{"y.T", "outer.BP", "j.BP", "j.BH", "i.BP", "i.BH", "outer.BH", "x.T"}));
}

// ---- Tensor hooks ---------------------------------------------------------------------------------------------------

// Paddle#31775 (its example), pytorch#58493
TEST(TensorHook, PaddleExample) {
    auto x = Leaf({0, 1, 2, 3}), y = Leaf({4, 5, 6, 7});
    auto z = Of({1, 2, 3, 4});
    Floats observed;
    x->RegisterHook([&](const TensorPtr &grad) { observed = Values(grad); });
    x->RegisterHook([](const TensorPtr &grad) { return grad->Mul(2); });
    auto w = x + y;
    w->RegisterHook([](const TensorPtr &grad) { return grad->Mul(2); });
    z->Matmul(w)->Backward();
    EXPECT_EQ(observed, (Floats{2, 4, 6, 8}));
    EXPECT_EQ(Values(x->grad()), (Floats{4, 8, 12, 16}));
    EXPECT_EQ(Values(y->grad()), (Floats{2, 4, 6, 8}));
    EXPECT_EQ(w->grad(), nullptr);
}

TEST(TensorHook, PaddleExampleWithRemoval) {
    auto x = Leaf({0, 1, 2, 3});
    auto handle = x->RegisterHook([](const TensorPtr &grad) { return grad->Mul(2); });
    (x * 3)->Sum()->Backward();
    EXPECT_EQ(Values(x->grad()), (Floats{6, 6, 6, 6}));
    handle->Remove();
    x->ZeroGrad();
    (x * 3)->Sum()->Backward();
    EXPECT_EQ(Values(x->grad()), (Floats{3, 3, 3, 3}));
}

// pytorch#35802
TEST(TensorHook, RunsUnderGrad) {
    auto x = Leaf(1);
    Floats seen;
    int accumulated = 0;
    x->RegisterHook([&](const TensorPtr &grad) {
        seen = Values(grad);
        return grad->Mul(10);
    });
    x->RegisterPostAccumulateGradHook([&](const TensorPtr &) { ++accumulated; });
    EXPECT_EQ(Values(autograd::Grad({x * 5}, {x})[0]), (Floats{50}));
    EXPECT_EQ(seen, (Floats{5}));
    EXPECT_EQ(x->grad(), nullptr);
    EXPECT_EQ(accumulated, 0);
}

TEST(TensorHook, GradRunsOnlyTheHooksOnItsWay) {
    auto x = Leaf(1), w = Leaf(2);
    int calls = 0;
    w->RegisterHook([&](const TensorPtr &) { ++calls; });
    EXPECT_EQ(Values(autograd::Grad({x * w}, {x})[0]), (Floats{2}));
    EXPECT_EQ(calls, 0);
}

// pytorch#11751
TEST(TensorHook, UnusedOutputOfAFunctionGetsNull) {
    auto a = Leaf({1, 2});
    auto parts = a->Unbind();
    bool null_seen = false;
    Floats seen;
    parts[0]->RegisterHook([&](const TensorPtr &grad) { null_seen = grad == nullptr; });
    parts[1]->RegisterHook([&](const TensorPtr &grad) { seen = Values(grad); });
    parts[1]->Backward();
    EXPECT_TRUE(null_seen);
    EXPECT_EQ(seen, (Floats{1}));
    EXPECT_EQ(Values(a->grad()), (Floats{0, 1}));
}

class StopsGradient : public autograd::Function {
public:
    StopsGradient() : Function("StopsGradient") {}
    TensorList Forward(const TensorList &inputs) override { return {inputs[0]->Clone()}; }
    TensorList Backward(const TensorList &) override { return {nullptr}; }
};

TEST(TensorHook, BackwardThatReturnsNull) {
    auto x = Leaf(1);
    std::vector<Floats> seen;
    int accumulated = 0;
    x->RegisterHook([&](const TensorPtr &grad) { seen.push_back(Values(grad)); });
    x->RegisterPostAccumulateGradHook([&](const TensorPtr &) { ++accumulated; });
    std::make_shared<StopsGradient>()->Apply({x})[0]->Backward();
    EXPECT_EQ(seen, (std::vector<Floats>{{}}));
    EXPECT_EQ(accumulated, 0);
    EXPECT_EQ(x->grad(), nullptr);

    seen.clear();
    (std::make_shared<StopsGradient>()->Apply({x})[0] + x * 3)->Backward();
    EXPECT_EQ(seen, (std::vector<Floats>{{3}}));
    EXPECT_EQ(accumulated, 1);
}

// pytorch#58354, #66037: removes itself, and is silent in the next pass.
TEST(TensorHook, RemovesItselfAndReplaces) {
    auto x = Tensor::Ones({5}, DataType::kFLOAT32, test::TestDevice())->RequiresGrad();
    std::shared_ptr<HookHandle> handle;
    handle = x->RegisterHook([&](const TensorPtr &grad) {
        handle->Remove();
        return grad->Mul(0);
    });
    x->Square()->Mean()->Backward();
    EXPECT_EQ(Values(x->grad()), (Floats{0, 0, 0, 0, 0}));
    x->ZeroGrad();
    x->Square()->Mean()->Backward();
    EXPECT_FLOAT_EQ(Values(x->grad())[0], 0.4F);
}

// Paddle#40041
TEST(TensorHook, WrongReplacementIsAnErrorAndWritesNothing) {
    for (const auto &replacement : {Of({1, 2, 3}), Tensor::Ones({2}, DataType::kFLOAT64, test::TestDevice())}) {
        auto x = Leaf({1, 2});
        x->RegisterHook([&](const TensorPtr &) { return replacement; }, {.name = "scale"});
        const std::string text = Thrown<AutogradError>([&] { (x * 2)->Sum()->Backward(); });
        EXPECT_TRUE(Contains(text, "'scale'") && Contains(text, "expected a gradient of shape (2,), float32")) << text;
        EXPECT_EQ(x->grad(), nullptr);
    }
}

// pytorch#17315, #90520
TEST(TensorHook, GradModeInsideOfHooks) {
    auto x = Leaf(2);
    auto y = x->Square();
    std::vector<bool> recording;
    y->RegisterHook([&](const TensorPtr &grad) {
        recording.push_back(autograd::GradMode::IsEnabled());
        return grad * x;
    });
    y->Backward(nullptr, /*retain_graph=*/true);
    EXPECT_EQ(Values(x->grad()), (Floats{8}));
    auto g = autograd::Grad({y}, {x}, {}, std::nullopt, /*create_graph=*/true)[0];
    EXPECT_EQ(Values(g), (Floats{8}));
    EXPECT_EQ(Values(autograd::Grad({g}, {x})[0]), (Floats{8}));
    EXPECT_EQ(recording, (std::vector<bool>{false, true}));
}

// pytorch#8023, #76464
TEST(TensorHook, SeesEachPassAlone) {
    auto x = Leaf(1);
    Floats seen, accumulated;
    x->RegisterHook([&](const TensorPtr &grad) {
        seen.push_back(Values(grad)[0]);
        return grad->Mul(2);
    });
    auto handle = x->RegisterPostAccumulateGradHook(
        [&](const TensorPtr &leaf) { accumulated.push_back(Values(leaf->grad())[0]); });
    for (int k = 1; k <= 3; ++k) {
        (x * k)->Backward();
    }
    EXPECT_EQ(seen, (Floats{1, 2, 3}));
    EXPECT_EQ(accumulated, (Floats{2, 6, 12}));

    x->RegisterPostAccumulateGradHook([](const TensorPtr &leaf) { leaf->ZeroGrad(); });
    (x * 1)->Backward();
    EXPECT_EQ(x->grad(), nullptr);
    (x * 1)->Backward();
    EXPECT_EQ(accumulated.back(), 2);
}

// opacus#413, TransformerEngine#3552
TEST(TensorHook, TiedParameterFiresOnce) {
    auto w = Leaf(1);
    std::vector<Floats> seen;
    int accumulated = 0;
    w->RegisterHook([&](const TensorPtr &grad) { seen.push_back(Values(grad)); });
    w->RegisterPostAccumulateGradHook([&](const TensorPtr &) { ++accumulated; });
    (w * 2 + w * 3)->Backward();
    EXPECT_EQ(seen, (std::vector<Floats>{{5}}));
    EXPECT_EQ(accumulated, 1);
    EXPECT_EQ(Values(w->grad()), (Floats{5}));
}

// pytorch#79767, #79996
TEST(TensorHook, StaysWithTheValueOfATensorChangedInPlace) {
    auto a = Leaf(1);
    auto y = a->Clone();
    Floats before, after;
    y->RegisterHook([&](const TensorPtr &grad) { before = Values(grad); });
    y->RetainGrad();
    y->Mul_(2);
    y->RegisterHook([&](const TensorPtr &grad) { after = Values(grad); });
    (y * 3)->Backward();
    EXPECT_EQ(after, (Floats{3}));
    EXPECT_EQ(before, (Floats{6}));
    EXPECT_EQ(Values(y->grad()), (Floats{3}));
    EXPECT_EQ(Values(a->grad()), (Floats{6}));
}

// pytorch#139742
TEST(TensorHook, SurvivesNewData) {
    auto x = Leaf({1, 2});
    int seen = 0, accumulated = 0;
    x->RegisterHook([&](const TensorPtr &) { ++seen; });
    x->RegisterPostAccumulateGradHook([&](const TensorPtr &) { ++accumulated; });
    {
        const autograd::NoGradGuard no_grad;
        x->Sub_(Of({1, 1}));
    }
    x->Square()->Sum()->Backward();
    EXPECT_EQ(Values(x->grad()), (Floats{0, 2}));
    x->SetData(Of({5, 6}));
    x->ZeroGrad();
    x->Square()->Sum()->Backward();
    EXPECT_EQ(Values(x->grad()), (Floats{10, 12}));
    EXPECT_EQ(seen, 2);
    EXPECT_EQ(accumulated, 2);
}

TEST(TensorHook, GradientsSharedBetweenEdgesAreNotHandedOut) {
    auto x = Leaf(1), y = Leaf(1);
    y->RegisterHook([](const TensorPtr &grad) { grad->Mul_(10); });
    (x + y)->Backward();
    EXPECT_EQ(Values(x->grad()), (Floats{1}));
    EXPECT_EQ(Values(y->grad()), (Floats{10}));
}

TEST(TensorHook, GradientNeverSharesMemoryWithWhatAHookReturned) {
    auto x = Leaf({1, 2});
    x->RegisterHook([&](const TensorPtr &) { return x->Detach(); });
    (x * 2)->Sum()->Backward();
    EXPECT_EQ(Values(x->grad()), (Floats{1, 2}));
    EXPECT_NE(x->grad()->storage(), x->storage());
}

TEST(TensorHook, GradientNeverSharesMemoryWithTheCallers) {
    auto x = Leaf({1, 2});
    auto gradient = Of({3, 4});
    x->Clone()->Backward(gradient);
    EXPECT_EQ(Values(x->grad()), (Floats{3, 4}));
    EXPECT_NE(x->grad()->storage(), gradient->storage());
}

TEST(TensorHook, TwoThreadsOnASharedLeaf) {
    auto w = Leaf(1);
    std::atomic<int> calls{0};
    w->RegisterHook([&](const TensorPtr &) { ++calls; });
    const auto work = [&] {
        for (int i = 0; i < 500; ++i) {
            (w * 2)->Backward();
        }
    };
    std::thread one(work), two(work);
    one.join();
    two.join();
    EXPECT_EQ(calls, 1000);
    EXPECT_EQ(Values(w->grad()), (Floats{2000}));
}

TEST(TensorHook, FiresAgainInTheSecondPass) {
    auto x = Leaf(2);
    auto y = x->Square();
    auto z = y->Square();
    Floats seen;
    auto handle = y->RegisterHook([&](const TensorPtr &grad) { seen.push_back(Values(grad)[0]); });
    auto first = autograd::Grad({z}, {x}, {}, std::nullopt, /*create_graph=*/true)[0];
    EXPECT_EQ(Values(first), (Floats{32}));
    EXPECT_EQ(seen, (Floats{8}));
    first->Backward();
    EXPECT_EQ(seen, (Floats{8, 8}));
    EXPECT_EQ(Values(x->grad()), (Floats{48}));
}

// pytorch#10683: wanted there.
TEST(TensorHook, MayBeToldItsTensor) {
    auto x = Leaf({1, 2});
    auto y = x * 3;
    Floats seen;
    x->RegisterHook([&](const TensorPtr &tensor, const TensorPtr &grad) {
        EXPECT_EQ(tensor, x);
        seen.push_back(Values(grad)[0]);
    });
    y->RegisterHook([&](const TensorPtr &tensor, const TensorPtr &grad) { return grad->Mul(tensor); });
    y->Sum()->Backward();
    EXPECT_EQ(seen, (Floats{9}));  // 3 * y, y = 3 x
    EXPECT_EQ(Values(x->grad()), (Floats{9, 18}));
}

TEST(TensorHook, IsToldNullForATensorThatIsGone) {
    auto x = Leaf(2);
    bool called = false;
    auto y = x->Square();
    y->RegisterHook([&](const TensorPtr &tensor, const TensorPtr &grad) {
        called = true;
        EXPECT_EQ(tensor, nullptr);
        EXPECT_EQ(Values(grad), (Floats{1}));
    });
    auto z = y * 1;
    y.reset();
    z->Backward();
    EXPECT_TRUE(called);
}

// pytorch#11751: wanted there.
TEST(TensorHook, ReplacesAnUndefinedGradient) {
    auto a = Leaf({1, 2});
    const auto parts = a->Split(1, 0);
    parts[0]->RegisterHook([](const TensorPtr &grad) {
        EXPECT_EQ(grad, nullptr);
        return Of({7});
    });
    parts[1]->Backward();
    EXPECT_EQ(Values(a->grad()), (Floats{7, 1}));
    a->ZeroGrad();
    const auto again = a->Split(1, 0);
    again[0]->RegisterHook([](const TensorPtr &) { return Of({7, 7}); });
    EXPECT_TRUE(Contains(Thrown<AutogradError>([&] { again[1]->Backward(); }), "expected a gradient of shape (1,)"));
    EXPECT_EQ(a->grad(), nullptr);
}

// pytorch#30850: no way past them.
TEST(TensorHook, EveryWayToALeafsGradientRunsItsHooks) {
    const auto w = Leaf(1);
    int hooks = 0, accumulated = 0;
    w->RegisterHook([&](const TensorPtr &) { ++hooks; });
    w->RegisterPostAccumulateGradHook([&](const TensorPtr &) { ++accumulated; });
    (w * 2)->Backward();
    autograd::Backward({w * 2, w * 3}, {});
    w->Backward(Tensor::FromScalar(1, DataType::kFLOAT32, test::TestDevice()));  // the leaf is the root
    const auto twice = std::make_shared<autograd::MulScalar>(2);
    twice->Apply({w});
    twice->BackwardPartial(Tensor::FromScalar(1, DataType::kFLOAT32, test::TestDevice()), 0);
    const auto copy = w->Clone();
    copy->Mul_(2);
    copy->Backward();
    EXPECT_EQ(hooks, 5);
    EXPECT_EQ(accumulated, 5);
    EXPECT_EQ(Values(w->grad()), (Floats{2 + 5 + 1 + 2 + 2}));
}

TEST(TensorHook, NeedsATensorThatRequiresGrad) {
    EXPECT_TRUE(
        Contains(Thrown<AutogradError>([] { Of({1})->RegisterHook([](const TensorPtr &) {}); }), "RegisterHook"));
    EXPECT_TRUE(Contains(Thrown<ValueError>([] { Leaf(1)->RegisterHook(TensorHook()); }), "empty function"));
    auto interior = Leaf(1) * 2;
    EXPECT_NE(Thrown<AutogradError>([&] { interior->RegisterPostAccumulateGradHook([](const TensorPtr &) {}); }), "");
}

TEST(TensorHook, PreAccumulateHookOfALeaf) {
    auto x = Leaf(1);
    x->RegisterPreAccumulateGradHook([](const TensorPtr &grad) { return grad->Mul(2); });
    (x * 3)->Backward();
    EXPECT_EQ(Values(x->grad()), (Floats{6}));
    auto interior = x * 2;
    EXPECT_NE(Thrown<AutogradError>([&] { interior->RegisterPreAccumulateGradHook([](const TensorPtr &) {}); }), "");
}

TEST(TensorHook, ClassBasedPostAccumulateHook) {
    class Halve : public autograd::PostAccumulateGradHook {
        void operator()(const TensorPtr &leaf) override { leaf->grad()->Mul_(0.5); }
    };
    auto x = Leaf(1);
    x->RegisterPostAccumulateGradHook(std::make_shared<Halve>());
    (x * 6)->Backward();
    EXPECT_EQ(Values(x->grad()), (Floats{3}));
}

}  // namespace
}  // namespace infini_train
