// Steps, hooks, groups and errors of optimizers.

#include "infini_train/include/optimizer.h"

#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/tensor.h"

#include "test/support/modules.h"
#include "test/support/tensors.h"

namespace infini_train {
namespace {

using optimizers::Adam;
using optimizers::AdamW;
using optimizers::SGD;
using test::Contains;
using test::Floats;
using test::Leaf;
using test::Of;
using test::Thrown;
using test::Values;

// Subtracts the gradient, as somebody else might write it.
class Subtract : public Optimizer {
public:
    using Optimizer::Optimizer;

protected:
    void StepImpl() override {
        for (const Update &update : BeginUpdates()) {
            update.param->Sub_(update.grad);
        }
        EndUpdates();
    }
};

TEST(Optimizer, TrainsThroughBackward) {
    const auto w = Leaf({1, 2});
    SGD optimizer(TensorList{w}, 0.25);
    for (int i = 0; i < 2; ++i) {
        optimizer.ZeroGrad();
        w->Square()->Sum()->Backward();  // the gradient is 2 w: each step halves w
        optimizer.Step();
    }
    EXPECT_EQ(Values(w), Floats({0.25, 0.5}));
    EXPECT_TRUE(w->is_leaf());
    optimizer.ZeroGrad(false);
    EXPECT_EQ(Values(w->grad()), Floats({0, 0}));
    optimizer.ZeroGrad();
    EXPECT_EQ(w->grad(), nullptr);
}

TEST(Optimizer, LeavesParametersWithoutGradientAlone) {
    const auto a = Leaf(Floats{1});
    const auto b = Leaf(Floats{2});
    AdamW optimizer(TensorList{a, b}, 0.1);
    a->set_grad(Of({1}));
    const uint32_t version_a = a->Version();
    const uint32_t version_b = b->Version();
    optimizer.Step();
    EXPECT_NE(Values(a)[0], 1);
    EXPECT_EQ(Values(b), Floats({2}));
    EXPECT_EQ(a->Version(), version_a + 1);
    EXPECT_EQ(b->Version(), version_b);
    EXPECT_EQ(optimizer.StateDict().count("0.step"), 1U);
    EXPECT_EQ(optimizer.StateDict().count("1.step"), 0U);
    // b's own first step is as long as a's was, whatever the number of steps before.
    a->ZeroGrad();
    b->set_grad(Of({1}));
    optimizer.Step();
    EXPECT_FLOAT_EQ(Values(b)[0], 2 - 2 * 0.1F * 0.01F - 0.1F);
}

TEST(Optimizer, AnOverwrittenParameterIsNoticedByBackward) {
    const auto w = Leaf(Floats{3});
    const auto loss = w->Square()->Sum();
    w->set_grad(Of({1}));
    SGD(TensorList{w}, 0.1).Step();
    EXPECT_THROW(loss->Backward(), AutogradError);
}

TEST(Optimizer, HooksRunInOrderAndWithoutRecording) {
    std::string order;
    const auto note = [&](const char *text) {
        return [&order, text](Optimizer *optimizer) {
            order += std::string(text) + (autograd::GradMode::IsEnabled() ? "!" : "") + " ";
            EXPECT_EQ(optimizer->type(), "SGD");
        };
    };
    const auto w = Leaf(Floats{1});
    w->set_grad(Of({1}));
    SGD optimizer(TensorList{w}, 1.0);
    const ScopedHook global_post(GlobalOptimizerHooks().RegisterStepPostHook(note("global-post")));
    const ScopedHook global_pre(GlobalOptimizerHooks().RegisterStepPreHook(note("global-pre")));
    optimizer.RegisterStepPostHook(note("post"));
    optimizer.RegisterStepPreHook(note("pre"));
    optimizer.RegisterStepPreHook(
        [&](Optimizer *self) {
            order += "w=" + std::to_string(static_cast<int>(Values(w)[0])) + " ";
            self->RegisterStepPostHook(note("late"), {.max_calls = 1});
        },
        {.max_calls = 1});
    optimizer.Step();
    EXPECT_EQ(order, "global-pre pre w=1 post global-post ");
    order.clear();
    optimizer.Step();
    EXPECT_EQ(order, "global-pre pre post late global-post ");
    EXPECT_EQ(Values(w), Floats({-1}));
}

TEST(Optimizer, APreHookThatThrowsStopsTheStep) {
    const auto w = Leaf(Floats{1});
    w->set_grad(Of({1}));
    Adam optimizer(TensorList{w}, 0.1);
    int always = 0;
    int never = 0;
    optimizer.RegisterStepPostHook([&](Optimizer *) { ++never; });
    optimizer.RegisterStepPostHook([&](Optimizer *) { ++always; }, {.always_call = true});
    auto bad = optimizer.RegisterStepPreHook([](Optimizer *) { throw std::runtime_error("no"); }, {.name = "check"});
    EXPECT_EQ(Thrown<std::runtime_error>([&] { optimizer.Step(); }), "no [step pre hook 'check' of Adam]");
    EXPECT_EQ(Values(w), Floats({1}));
    EXPECT_EQ(w->Version(), 0U);
    EXPECT_EQ(optimizer.StateDict().count("0.step"), 0U);
    EXPECT_EQ(always, 1);
    EXPECT_EQ(never, 0);
    EXPECT_TRUE(autograd::GradMode::IsEnabled());
    bad->Remove();
    optimizer.Step();
    EXPECT_FLOAT_EQ(Values(w)[0], 0.9F);
    EXPECT_EQ(always, 2);
    EXPECT_EQ(never, 1);
}

TEST(Optimizer, APostHookThatThrowsLeavesTheLaterOnesThatAlwaysRun) {
    const auto w = Leaf(Floats{1});
    w->set_grad(Of({1}));
    SGD optimizer(TensorList{w}, 1.0);
    std::string order;
    optimizer.RegisterStepPostHook([&](Optimizer *) { order += "a"; }, {.always_call = true});
    optimizer.RegisterStepPostHook([](Optimizer *) { throw ValueError("Post: stop"); }, {.always_call = true});
    optimizer.RegisterStepPostHook([&](Optimizer *) { order += "b"; });
    const ScopedHook last(
        GlobalOptimizerHooks().RegisterStepPostHook([&](Optimizer *) { order += "c"; }, {.always_call = true}));
    EXPECT_EQ(Thrown<ValueError>([&] { optimizer.Step(); }), "Post: stop [step post hook of SGD]");
    EXPECT_EQ(order, "ac");
    EXPECT_EQ(Values(w), Floats({0}));
}

TEST(Optimizer, AlwaysCalledHooksRunOnceThoughTheThrowerIsGone) {
    const auto w = Leaf(Floats{1});
    w->set_grad(Of({1}));
    SGD optimizer(TensorList{w}, 1.0);
    std::string order;
    std::shared_ptr<HookHandle> thrower;
    optimizer.RegisterStepPostHook([&](Optimizer *) { order += "a"; }, {.always_call = true});
    thrower = optimizer.RegisterStepPostHook([&](Optimizer *) {
        thrower->Remove();
        throw ValueError("stop");
    });
    optimizer.RegisterStepPostHook([&](Optimizer *) { order += "c"; }, {.always_call = true});
    EXPECT_NE(Thrown<ValueError>([&] { optimizer.Step(); }), "");
    EXPECT_EQ(order, "ac");
}

TEST(Optimizer, AHookMayChangeGradientsAndParameters) {
    const auto w = Leaf(Floats{1});
    w->set_grad(Of({8}));
    SGD optimizer(TensorList{w}, 0.5);
    optimizer.RegisterStepPreHook([&](Optimizer *) { w->grad()->Mul_(0.25); });
    optimizer.RegisterStepPostHook([&](Optimizer *self) { self->params()[0]->Add_(10); });
    optimizer.Step();
    EXPECT_EQ(Values(w), Floats({10}));
}

// pytorch#185331: hooks for a step.
TEST(OptimizerHook, RemovesHooksOfAnythingAfterSteps) {
    const auto w = Leaf(1);
    SGD optimizer({w}, 0.1);
    int one = 0, two = 0;
    optimizer.RemoveAfterSteps(w->RegisterHook([&](const TensorPtr &) { ++one; }));
    optimizer.RemoveAfterSteps(w->RegisterHook([&](const TensorPtr &) { ++two; }), 2);
    for (int step = 0; step < 3; ++step) {
        for (int micro_batch = 0; micro_batch < 4; ++micro_batch) {
            (w * 2)->Backward();
        }
        optimizer.Step();
    }
    EXPECT_EQ(one, 4);
    EXPECT_EQ(two, 8);
    EXPECT_TRUE(Contains(Thrown<ValueError>([&] { optimizer.RemoveAfterSteps(nullptr); }), "SGD: RemoveAfterSteps"));
    const auto hook = w->RegisterHook([](const TensorPtr &) {});
    EXPECT_TRUE(Contains(Thrown<ValueError>([&] { optimizer.RemoveAfterSteps(hook, 0); }), "at least one step"));
}

TEST(Optimizer, GroupsHaveTheirOwnRates) {
    const auto a = Leaf(Floats{1});
    const auto b = Leaf(Floats{1});
    const auto c = Leaf(Floats{1});
    SGD optimizer({{.params = {a}}, {.params = {b}, .lr = 0.5, .weight_decay = 0.0}}, 0.25, 0, 0, 1.0);
    optimizer.AddParamGroup({.params = {c}, .lr = 0.0});
    EXPECT_EQ(optimizer.groups().size(), 3U);
    EXPECT_EQ(optimizer.params(), TensorList({a, b, c}));
    EXPECT_EQ(optimizer.learning_rate(), 0.25);
    EXPECT_EQ(optimizer.learning_rate(1), 0.5);
    const auto step = [&] {
        for (const TensorPtr &param : optimizer.params()) {
            param->CopyFrom(Of({1})->Detach());
            param->set_grad(Of({1}));
        }
        optimizer.Step();
    };
    const autograd::NoGradGuard no_grad;
    step();
    EXPECT_EQ(Values(a), Floats({0.5}));  // 1 - 0.25 * (1 + 1)
    EXPECT_EQ(Values(b), Floats({0.5}));  // 1 - 0.5 * 1
    EXPECT_EQ(Values(c), Floats({1}));
    optimizer.set_learning_rate(0.125, 0);
    step();
    EXPECT_EQ(Values(a), Floats({0.75}));
    EXPECT_EQ(Values(b), Floats({0.5}));
    optimizer.set_learning_rate(1.0);
    step();
    EXPECT_EQ(Values(a), Floats({-1}));
    EXPECT_EQ(Values(b), Floats({0}));
    EXPECT_EQ(Values(c), Floats({-1}));
}

TEST(Optimizer, RejectsWhatMakesNoSense) {
    const auto w = Leaf(Floats{1});
    const auto one = [&](const char *what, const auto &body) { EXPECT_EQ(Thrown<ValueError>(body), what); };
    one("SGD: expected a learning rate >= 0, got -1", [&] { SGD(TensorList{w}, -1); });
    one("SGD: expected a learning rate >= 0, got nan", [&] { SGD(TensorList{w}, std::nan("")); });
    one("SGD: expected momentum in [0, inf), got -0.5", [&] { SGD(TensorList{w}, 1, -0.5); });
    one("SGD: expected a weight decay >= 0, got -2", [&] { SGD(TensorList{w}, 1, 0, 0, -2); });
    one("SGD: Nesterov's form expects momentum and no dampening", [&] { SGD(TensorList{w}, 1, 0, 0, 0, true); });
    one("Adam: expected beta1 in [0, 1), got 1", [&] { Adam(TensorList{w}, 1e-3, 1.0); });
    one("AdamW: expected beta2 in [0, 1), got -1", [&] { AdamW(TensorList{w}, 1e-3, 0.9, -1.0); });
    one("Adam: expected eps in [0, inf), got -1", [&] { Adam(TensorList{w}, 1e-3, 0.9, 0.9, -1.0); });
    one("SGD: expected parameters, got an empty list", [&] { SGD(TensorList(), 1); });
    one("SGD: expected parameters, got no group of them", [&] { SGD(std::vector<ParamGroup>(), 1); });
    one("SGD: parameter 1 is null", [&] { SGD(TensorList{w, nullptr}, 1); });
    one("SGD: parameter 1 of shape (1,) is given twice", [&] { SGD(TensorList{w, w}, 1); });
    one("SGD: parameter 1 of shape (1,) is given twice", [&] { SGD({{.params = {w}}, {.params = {w}}}, 1); });
    one("SGD: expected a learning rate >= 0, got -1", [&] { SGD({{.params = {w}, .lr = -1.0}}, 1); });
    one("Optimizer: expected a hook to call, got an empty function",
        [&] { SGD(TensorList{w}, 1).RegisterStepPreHook(nullptr); });
    EXPECT_EQ(Thrown<DtypeError>([] { SGD(TensorList{Tensor::Ones({2}, DataType::kINT64)}, 1); }),
              "SGD: expected floating-point parameters, parameter 0 holds int64");
    EXPECT_EQ(Thrown<AutogradError>([&] { SGD(TensorList{w->Mul(2)}, 1); }),
              "SGD: expected leaves, parameter 0 was computed");
    SGD optimizer(TensorList{w}, 0.5);
    one("SGD: expected a learning rate >= 0, got -1", [&] { optimizer.set_learning_rate(-1); });
    EXPECT_EQ(optimizer.learning_rate(), 0.5);
    EXPECT_EQ(Thrown<IndexError>([&] { optimizer.set_learning_rate(1, 1); }), "SGD: expected a group below 1, got 1");
}

TEST(Optimizer, CreateMakesFactories) {
    const auto w = Leaf(Floats{1});
    for (const OptimizerCreator &create : {SGD::Create(0.125), Adam::Create(0.125), AdamW::Create(0.125)}) {
        const std::shared_ptr<Optimizer> optimizer = create({w});
        EXPECT_EQ(optimizer->learning_rate(), 0.125);
        EXPECT_EQ(optimizer->params(), TensorList({w}));
    }
    EXPECT_EQ(AdamW::Create()({w})->groups()[0].weight_decay, 0.01);
    EXPECT_EQ(Adam::Create()({w})->groups()[0].weight_decay, 0.0);
}

TEST(Optimizer, TakesAnUpdateOfSomebodyElses) {
    const auto w = Leaf({5, 6});
    Subtract optimizer(TensorList{w});
    w->set_grad(Of({1, 2}));
    optimizer.Step();
    EXPECT_EQ(Values(w), Floats({4, 4}));
    EXPECT_EQ(optimizer.StateDict().at("0.step")->Item<int64_t>(), 1);
}

TEST(Optimizer, StateFollowsAModuleToAnotherDataType) {
    const auto model = test::MakeModule([](const TensorList &inputs) { return inputs; });
    const auto w = Leaf({1, 1, 1});
    model->RegisterParameter("w", w);
    Adam optimizer(model->Parameters(), 0.1);
    w->set_grad(Of({1, 2, 3}));
    optimizer.Step();
    model->To(DataType::kFLOAT64);
    ASSERT_EQ(w->grad()->Dtype(), DataType::kFLOAT64);
    optimizer.Step();
    EXPECT_EQ(optimizer.StateDict().at("0.exp_avg")->Dtype(), DataType::kFLOAT64);
    EXPECT_EQ(optimizer.StateDict().at("0.step")->Item<int64_t>(), 2);
    // The same gradient twice: both averages, corrected, are it and its square, so that each step is 0.1 long.
    for (const double value : w->ToVector<double>()) {
        EXPECT_NEAR(value, 0.8, 1e-7);
    }
    model->To(DataType::kBFLOAT16);
    optimizer.Step();
    EXPECT_EQ(optimizer.StateDict().at("0.exp_avg")->Dtype(), DataType::kFLOAT32);
    EXPECT_NEAR(w->ToVector<double>()[2], 0.7, 0x1p-8);
}

TEST(Optimizer, AParameterOfOtherDimsIsAnError) {
    const auto w = Leaf({1, 1});
    Adam optimizer(TensorList{w});
    w->set_grad(Of({1, 1}));
    optimizer.Step();
    w->SetData(Of({1, 2, 3}));
    w->set_grad(Of({1, 1, 1}));
    EXPECT_EQ(Thrown<ShapeError>([&] { optimizer.Step(); }), "Adam: parameter 0 had shape (2,), now it has (3,)");
    EXPECT_EQ(Values(w), Floats({1, 2, 3}));
}

}  // namespace
}  // namespace infini_train
