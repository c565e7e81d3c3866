// The graph itself: unused branches and outputs, freed and stale graphs, deep ones, nested passes, functions of one's
// own.

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/anomaly_mode.h"
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

TEST(Graph, UnusedBranchDoesNotStallTheOthers) {
    auto x = Leaf(3);
    auto y = x->Square();
    auto metric = y * 100;
    (y * 2)->Backward();
    EXPECT_EQ(Values(x->grad()), (Floats{12}));
    EXPECT_TRUE(metric->requires_grad());
}

TEST(Graph, UnusedOutputsCountAsZero) {
    auto x = Leaf({1, 2, 3, 4});
    x->Split(2)[1]->Square()->Sum()->Backward();
    EXPECT_EQ(Values(x->grad()), (Floats{0, 0, 6, 8}));
}

TEST(Graph, SecondBackwardWithoutRetainingIsAnErrorThatWritesNothing) {
    auto x = Leaf(3), b = Leaf(1);
    auto y = x->Square() + b;
    y->Backward();
    const std::string text = Thrown<AutogradError>([&] { y->Backward(); });
    EXPECT_TRUE(Contains(text, "retain_graph = true")) << text;
    EXPECT_EQ(Values(x->grad()), (Floats{6}));
    EXPECT_EQ(Values(b->grad()), (Floats{1}));
}

TEST(Graph, RetainedGraphRunsAgainAndAccumulates) {
    auto x = Leaf(3);
    auto y = x->Square();
    y->Backward(nullptr, true);
    y->Backward();
    EXPECT_EQ(Values(x->grad()), (Floats{12}));
}

TEST(Graph, FunctionAppliedAgainMakesItsFirstOutputsStale) {
    auto a = Leaf(2), b = Leaf(5);
    auto square = std::make_shared<autograd::Square>();
    auto first = square->Apply({a})[0];
    auto second = square->Apply({b})[0];
    const std::string text = Thrown<AutogradError>([&] { first->Backward(); });
    EXPECT_TRUE(Contains(text, "Square") && Contains(text, "applied again")) << text;
    EXPECT_NE(Thrown<AutogradError>([&] { (first * 2)->Backward(); }), "");
    second->Backward();
    EXPECT_EQ(Values(b->grad()), (Floats{10}));
    EXPECT_EQ(a->grad(), nullptr);
}

TEST(Graph, VeryDeep) {
    auto x = Leaf(1);
    {
        auto y = x * 1;
        for (int i = 0; i < 100000; ++i) {
            y = y + 0;
        }
        y->Backward();
        EXPECT_EQ(Values(x->grad()), (Floats{1}));
    }
    {
        auto y = x * 1;  // never differentiated, destroyed whole, saved tensors and all
        for (int i = 0; i < 100000; ++i) {
            y = y * x;
        }
    }
}

TEST(Graph, DiamondWithSharedInputs) {
    auto x = Leaf(2);
    auto y = x * x;       // 4
    auto z = y * x + y;   // 8 + 4
    (z * y)->Backward();  // x^5 + x^4
    EXPECT_EQ(Values(x->grad()), (Floats{5 * 16 + 4 * 8}));
}

TEST(Graph, BackwardInsideOfAHook) {
    auto x = Leaf(2), w = Leaf(3);
    auto y = x * 5;
    y->RegisterHook([&](const TensorPtr &) {
        const autograd::EnableGradGuard recording;
        w->Square()->Backward();
    });
    y->Backward();
    EXPECT_EQ(Values(w->grad()), (Floats{6}));
    EXPECT_EQ(Values(x->grad()), (Floats{5}));
}

TEST(Graph, TensorThatRequiresNothing) {
    EXPECT_TRUE(Contains(Thrown<AutogradError>([] { Of({1})->Backward(); }), "requires no gradient"));
    EXPECT_TRUE(Contains(Thrown<AutogradError>([] { (Leaf({1, 2}) * 2)->Backward(); }), "needs a gradient"));
    EXPECT_TRUE(Contains(Thrown<AutogradError>([] {
                             (Leaf({1, 2}) * 2)->Backward(Of({1}));
                         }),
                         "of shape (2,), float32"));
}

TEST(Graph, LeafAsItsOwnRoot) {
    auto x = Leaf(3);
    x->Backward();
    EXPECT_EQ(Values(x->grad()), (Floats{1}));
}

TEST(Graph, GradOfUnusedInput) {
    auto x = Leaf(1), w = Leaf(1);
    EXPECT_TRUE(Contains(Thrown<AutogradError>([&] { autograd::Grad({x * 2}, {w}); }), "allow_unused"));
    auto grads = autograd::Grad({x * 2}, {x, w}, {}, std::nullopt, false, /*allow_unused=*/true);
    EXPECT_EQ(Values(grads[0]), (Floats{2}));
    EXPECT_EQ(grads[1], nullptr);
}

TEST(Graph, GradOfInteriorTensorsAndOfSeveralOutputs) {
    auto x = Leaf(2);
    auto y = x->Square();
    auto grads = autograd::Grad({y * 3, y * x}, {y, x}, {}, /*retain_graph=*/true);
    EXPECT_EQ(Values(grads[0]), (Floats{5}));          // 3 + x
    EXPECT_EQ(Values(grads[1]), (Floats{5 * 4 + 4}));  // 5 * 2x, and y of the product
    EXPECT_EQ(Values(autograd::Grad({y}, {y})[0]), (Floats{1}));
    EXPECT_EQ(x->grad(), nullptr);
}

// ---- Changes in place -----------------------------------------------------------------------------------------------

TEST(InPlace, SavedTensorChangedIsNamed) {
    auto x = Leaf(2);
    auto y = x * 1;
    auto z = y->Square();
    y->Mul_(10);
    const std::string text = Thrown<AutogradError>([&] { z->Backward(); });
    EXPECT_TRUE(Contains(text, "Square") && Contains(text, "changed in place")) << text;
}

TEST(InPlace, RecordedStep) {
    auto x = Leaf({1, 2});
    auto y = x * 3;
    y->Add_(x)->Mul_(2);
    y->Sum()->Backward();
    EXPECT_EQ(Values(y), (Floats{8, 16}));
    EXPECT_EQ(Values(x->grad()), (Floats{8, 8}));
}

TEST(InPlace, QuotientOfTwoRecordedTensors) {
    std::weak_ptr<autograd::Function> node;
    {
        auto x = Leaf(8), w = Leaf(2);
        auto y = x * 1;
        y->Div_(w);
        node = y->grad_fn();
        y->Backward();
        EXPECT_EQ(Values(x->grad()), (Floats{0.5}));
        EXPECT_EQ(Values(w->grad()), (Floats{-2}));
        auto unused = x * 1;
        unused->Div_(w);
        node = unused->grad_fn();
    }
    EXPECT_TRUE(node.expired());  // no cycle, though it was never differentiated
}

TEST(InPlace, TensorChangedByWhatWasComputedFromItIsFreed) {
    std::weak_ptr<autograd::Function> recorded, joined;
    {
        auto x = Leaf(3);
        auto y = x * 1;
        y->Add_(y->Square());
        recorded = y->grad_fn();
        auto plain = Of({2}, {});
        plain->Copy_(x * plain);
        joined = plain->grad_fn();
    }
    EXPECT_TRUE(recorded.expired());
    EXPECT_TRUE(joined.expired());
}

TEST(InPlace, LeafAndViewsAreRefused) {
    auto x = Leaf({1, 2});
    EXPECT_TRUE(Contains(Thrown<AutogradError>([&] { x->Add_(1); }), "NoGradGuard"));
    auto view = (x * 2)->View({2, 1});
    EXPECT_TRUE(Contains(Thrown<AutogradError>([&] { view->Add_(1); }), "Clone"));
    EXPECT_EQ(Values(x), (Floats{1, 2}));
}

TEST(InPlace, ViewOfATensorChangedSinceIsNotSilentlyWrong) {
    auto x = Leaf({1, 2});
    auto y = x * 2;
    auto view = y->View({2, 1});
    y->Mul_(10);
    EXPECT_TRUE(Contains(Thrown<AutogradError>([&] { view->Sum()->Backward(); }), "view"));
}

// ---- Custom functions and anomaly mode ------------------------------------------------------------------------------

class Cube : public autograd::Function {
public:
    Cube() : Function("Cube") {}
    TensorList Forward(const TensorList &inputs) override { return {inputs[0] * inputs[0] * inputs[0]}; }
    void SetupContext(const TensorList &inputs, const TensorList &) override { ctx_.SaveForBackward(inputs); }
    TensorList Backward(const TensorList &grad_outputs) override {
        const auto x = ctx_.GetSavedTensors()[0];
        return {grad_outputs[0] * x->Square() * 3};
    }
};

TEST(CustomFunction, FirstSecondAndThirdDerivative) {
    auto x = Leaf(2);
    auto y = std::make_shared<Cube>()->Apply({x})[0];
    auto d1 = autograd::Grad({y}, {x}, {}, std::nullopt, true)[0];
    auto d2 = autograd::Grad({d1}, {x}, {}, std::nullopt, true)[0];
    auto d3 = autograd::Grad({d2}, {x})[0];
    EXPECT_EQ(Values(y), (Floats{8}));
    EXPECT_EQ(Values(d1), (Floats{12}));
    EXPECT_EQ(Values(d2), (Floats{12}));
    EXPECT_EQ(Values(d3), (Floats{6}));
}

TEST(CustomFunction, WrongNumberOfGradients) {
    class Wrong : public autograd::Function {
    public:
        Wrong() : Function("Wrong") {}
        TensorList Forward(const TensorList &inputs) override { return {inputs[0] * 1}; }
        TensorList Backward(const TensorList &grad_outputs) override { return {grad_outputs[0], grad_outputs[0]}; }
    };
    auto y = std::make_shared<Wrong>()->Apply({Leaf(1)})[0];
    EXPECT_EQ(Thrown<AutogradError>([&] { y->Backward(); }), "Wrong: Backward gave 2 gradients for 1 inputs");
}

TEST(CustomFunction, AppliedAndDifferentiatedByHand) {
    // Without anything that requires a gradient, as one tries a function out.
    auto mul = std::make_shared<autograd::Mul>();
    mul->Apply({Of({2, 3}), Of({5, 7})});
    const TensorList grads = mul->Backward({Of({1, 10})});
    ASSERT_EQ(grads.size(), 2U);
    EXPECT_EQ(Values(grads[0]), (Floats{5, 70}));
    EXPECT_EQ(Values(grads[1]), (Floats{2, 30}));
}

TEST(AnomalyMode, NamesOperatorAndModule) {
    const autograd::AnomalyModeGuard anomaly;
    auto log = MakeModule([](const TensorList &in) { return TensorList{in[0]->Log()}; }, "LogLayer");
    auto net = MakeModule([&](const TensorList &in) { return (*log)({in[0] * 1}); }, "Net");
    net->RegisterModule("log", log);
    auto x = Leaf({1, 0});
    auto y = (*net)({x})[0];
    const std::string text = Thrown<AutogradError>([&] { y->Sum()->Backward(); });
    EXPECT_TRUE(Contains(text, "Log: ") && Contains(text, "isn't finite") && Contains(text, "log (LogLayer)")) << text;
    EXPECT_EQ(x->grad(), nullptr);
}

}  // namespace
}  // namespace infini_train
