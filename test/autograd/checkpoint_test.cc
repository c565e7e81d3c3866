// Checkpoint: what is computed again is what was computed, at the right time, and nothing else changes.

#include "infini_train/include/autograd/checkpoint.h"

#include <any>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/dropout.h"
#include "infini_train/include/autograd/function.h"
#include "infini_train/include/autograd/grad.h"
#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/autograd/gradcheck.h"
#include "infini_train/include/autograd/saved_tensor.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/core/generator.h"
#include "infini_train/include/tensor.h"

#include "test/support/tensors.h"

namespace infini_train {
namespace {

using autograd::Checkpoint;
using autograd::CheckpointOptions;
using test::Contains;
using test::Floats;
using test::Leaf;
using test::Of;
using test::Thrown;
using test::Values;
using Body = std::function<TensorList(const TensorList &)>;

// Of tensors that require a gradient, all different.
TensorPtr Random(const std::vector<int64_t> &dims, uint64_t seed) {
    Generator generator(seed);
    return Tensor::Randn(dims, DataType::kFLOAT32, Device(), &generator)->RequiresGrad();
}

std::vector<Floats> AllValues(const TensorList &tensors) {
    std::vector<Floats> values;
    for (const auto &tensor : tensors) {
        values.push_back(Values(tensor));
    }
    return values;
}

// ---- Values ---------------------------------------------------------------------------------------------------------

void ExpectNear(const TensorPtr &got, const std::vector<double> &expected) {
    const auto values = got->ToVector<double>();
    ASSERT_EQ(values.size(), expected.size());
    for (size_t i = 0; i < values.size(); ++i) {
        EXPECT_NEAR(values[i], expected[i], 1e-13 * (1 + std::abs(expected[i]))) << i;
    }
}

// The numbers, and where the second calls stop, are those of PyTorch 2.15 with use_reentrant=False in float64.
TEST(Checkpoint, AgreesWithPyTorch) {
    const auto leaf = [](const std::vector<double> &values, const std::vector<int64_t> &dims) {
        return Tensor::FromVector(values, dims)->RequiresGrad();
    };
    auto x = leaf({0.5, -1, 2, 1.5, 0.25, -0.75}, {2, 3});
    auto w1 = leaf({0.1, -0.2, 0.3, 0.4, -0.5, 0.6}, {3, 2});
    auto w2 = leaf({0.7, -0.8, 0.9, 1}, {2, 2});
    std::string calls;
    const auto body = [&](const TensorList &inputs) -> TensorList {
        calls += 'f';
        auto h = inputs[0]->Matmul(w1)->Tanh();
        calls += 'h';
        h = h * h->Exp();
        calls += 'e';
        return {h + 1};
    };
    auto z = Checkpoint(body, {x})[0]->Matmul(w2)->Square()->Sum();
    EXPECT_NEAR(z->Item<double>(), 12.579456750014044, 1e-12);
    EXPECT_EQ(calls, "fhe");
    const auto first = autograd::Grad({z}, {x, w1, w2}, {}, true, /*create_graph=*/true);
    EXPECT_EQ(calls, "fhefh");
    ExpectNear(first[0], {-2.7596940114305086, 5.5259739118397508, 8.2764476787000323, 0.70985231657201542,
                          2.4224629289032364, -3.6664239745349532});
    ExpectNear(first[1], {11.533088575120535, 7.3418869418464237, 1.9079120030661672, -13.731829451334479,
                          -5.7369077871559684, 27.390432407872158});
    ExpectNear(first[2], {10.475845583619531, -1.2587259441447025, 12.506367435665812, 5.5631101440794222});
    auto norm = first[0]->Square()->Sum() + first[1]->Square()->Sum() + first[2]->Square()->Sum();
    const auto second = autograd::Grad({norm}, {x, w1, w2});
    EXPECT_EQ(calls, "fhefhfh");
    ExpectNear(second[0], {-237.72113478640679, 502.27474106616256, 2078.3510957976969, 256.23422671469416,
                           239.42959817262283, -443.18682014383154});
    ExpectNear(second[1], {1113.2936095828138, 1017.1492874008455, 221.35398708402698, -2051.0516139992219,
                           -607.84771378140795, 4637.9285913234708});
    ExpectNear(second[2], {1236.2073647145162, -43.797314189370411, 2942.0090994449956, 2204.1125862288241});
}

// A few blocks of many operators; `run` decides how each is called.
class Blocks {
public:
    using Run = std::function<TensorList(const Body &, const TensorList &)>;

    TensorPtr Loss(const Run &run) const {
        TensorList current = {x, mask};
        for (size_t i = 0; i < weights.size(); ++i) {
            const auto out = run([this, i](const TensorList &inputs) { return Block(i, inputs); }, current);
            current = {out[0] + out[1], mask};
        }
        return current[0]->LogSoftmax(-1)->Mul(mask)->Sum();
    }
    TensorList Leaves() const {
        TensorList leaves = weights;
        leaves.push_back(x);
        return leaves;
    }
    void ZeroGrad() const {
        for (const auto &leaf : Leaves()) {
            leaf->ZeroGrad();
        }
    }
    std::vector<Floats> Grads() const {
        std::vector<Floats> grads;
        for (const auto &leaf : Leaves()) {
            grads.push_back(Values(leaf->grad()));
        }
        return grads;
    }

    const TensorPtr x = Random({8, 16}, 1);
    const TensorPtr mask = Random({8, 16}, 2)->Detach();  // an input that requires no gradient
    const TensorList weights = {Random({16, 16}, 3), Random({16, 16}, 4), Random({16, 16}, 5)};

private:
    TensorList Block(size_t i, const TensorList &inputs) const {
        auto h = inputs[0]->Matmul(weights[i])->Gelu();
        h = autograd::Dropout::Run(h, 0.25, true);
        h = h * h->Sigmoid() + inputs[1];
        h->Mul_(0.5);
        const auto halves = h->Split(8, 1);
        return {h->Softmax(-1), halves[0]->Mul(halves[1])->Sum(1, true)->Tanh()->Expand({8, 16})};
    }
};

TensorList Plainly(const Body &body, const TensorList &inputs) {
    return body(inputs);
}
TensorList Checkpointed(const Body &body, const TensorList &inputs) {
    return Checkpoint(body, inputs);
}
// Each block in three checkpoints, one within the other.
TensorList Nested(const Body &body, const TensorList &inputs) {
    return Checkpoint(
        [body](const TensorList &outer) {
            const auto h = Checkpoint(
                [body](const TensorList &middle) {
                    const auto inner = Checkpoint(body, {middle[0]->Tanh(), middle[1]});
                    return TensorList{inner[0]->Square(), inner[1]};
                },
                {outer[0]->Sin(), outer[1]});
            return TensorList{h[0]->Cos(), h[1]};
        },
        inputs);
}
TensorList NestedPlainly(const Body &body, const TensorList &inputs) {
    const auto inner = body({inputs[0]->Sin()->Tanh(), inputs[1]});
    return {inner[0]->Square()->Cos(), inner[1]};
}

// Every bit is the same, in one pass, in several, in Grad and in second derivatives, with dropout.
TEST(Checkpoint, EveryBitIsTheSame) {
    const Blocks blocks;
    const auto all = [&](const Blocks::Run &run) {
        std::vector<std::vector<Floats>> results;
        ManualSeed(7);
        auto loss = blocks.Loss(run);
        EXPECT_TRUE(std::isfinite(loss->Item<float>()));
        results.push_back({Values(loss)});
        results.push_back(AllValues(autograd::Grad({loss}, {blocks.weights[1]}, {}, true)));
        const auto first = autograd::Grad({loss}, blocks.Leaves(), {}, true, /*create_graph=*/true);
        results.push_back(AllValues(first));
        auto norm = first[0]->Square()->Sum() + first[3]->Square()->Sum();
        results.push_back(AllValues(autograd::Grad({norm}, blocks.Leaves(), {}, true)));
        norm = nullptr;
        blocks.ZeroGrad();
        loss->Backward(nullptr, /*retain_graph=*/true);
        results.push_back(blocks.Grads());
        loss->Backward();
        results.push_back(blocks.Grads());
        EXPECT_THROW(loss->Backward(), AutogradError);
        results.push_back({Values(Tensor::Rand({4}))});  // what comes next is what would have come
        return results;
    };
    EXPECT_EQ(all(Plainly), all(Checkpointed));
    EXPECT_EQ(all(NestedPlainly), all(Nested));
}

TEST(Checkpoint, PassesGradCheckAndGradGradCheck) {
    const auto body = [](const TensorList &inputs) -> TensorList {
        return Checkpoint(
            [](const TensorList &in) {
                auto h = in[0]->Matmul(in[1])->Tanh();
                return TensorList{h * h->Exp(), in[1]->Sum(0)->Sigmoid()};
            },
            inputs);
    };
    Generator generator(3);
    auto a = Tensor::Randn({2, 3}, DataType::kFLOAT64, Device(), &generator)->RequiresGrad();
    auto b = Tensor::Randn({3, 2}, DataType::kFLOAT64, Device(), &generator)->RequiresGrad();
    const auto first = autograd::GradCheck(body, {a, b});
    EXPECT_TRUE(first) << first.message;
    const auto second = autograd::GradGradCheck(body, {a, b});
    EXPECT_TRUE(second) << second.message;
}

TEST(Checkpoint, InputsAndOutputsOfAnyKind) {
    auto x = Leaf({1, 2}), w = Leaf({3, 4});
    auto plain = Of({5, 6});
    // Nothing among the inputs requires a gradient, some are null, and one is passed through.
    auto outputs = Checkpoint(
        [&](const TensorList &in) {
            EXPECT_EQ(in.size(), 3U);
            EXPECT_EQ(in[1], nullptr);
            return TensorList{in[0]->Mul(w)->Square(), nullptr, in[2], w};
        },
        {plain, nullptr, x});
    EXPECT_EQ(outputs.size(), 4U);
    EXPECT_EQ(outputs[2], x);
    EXPECT_EQ(outputs[3], w);
    (outputs[0]->Sum() + outputs[2]->Sum())->Backward();
    EXPECT_EQ(Values(w->grad()), (Floats{2 * 25 * 3, 2 * 36 * 4}));
    EXPECT_EQ(Values(x->grad()), (Floats{1, 1}));
    EXPECT_TRUE(Checkpoint([](const TensorList &) { return TensorList(); }, {}).empty());
    EXPECT_THROW(Checkpoint(nullptr, {x}), ValueError);
    EXPECT_THROW(Checkpoint(Body(), {x}), ValueError);
}

// An input is a leaf in the second call if it was in the first; what is done to it there reaches nobody.
TEST(Checkpoint, SecondCallHasInputsOfItsOwn) {
    auto x = Leaf(2);
    auto inner = x * 3;
    int hooks = 0, calls = 0;
    auto y = Checkpoint(
        [&](const TensorList &in) {
            ++calls;
            EXPECT_TRUE(in[0]->is_leaf());
            EXPECT_FALSE(in[1]->is_leaf());
            EXPECT_TRUE(in[0]->requires_grad() && in[1]->requires_grad());
            for (const auto &input : in) {
                input->RegisterHook([&](const TensorPtr &) { ++hooks; });
            }
            in[1]->RetainGrad();
            return TensorList{in[0]->Mul(in[1])};
        },
        {x, inner})[0];
    y->Backward(nullptr, true);
    EXPECT_EQ(calls, 2);
    EXPECT_EQ(hooks, 2);
    y->Backward();
    EXPECT_EQ(calls, 3);
    EXPECT_EQ(hooks, 4);
    EXPECT_EQ(Values(x->grad()), (Floats{24}));
    EXPECT_EQ(Values(inner->grad()), (Floats{4}));
}

TEST(Checkpoint, UnderNoGradItIsACall) {
    auto x = Leaf(2);
    int calls = 0;
    const autograd::NoGradGuard no_grad;
    auto y = Checkpoint(
        [&](const TensorList &in) {
            ++calls;
            EXPECT_FALSE(autograd::GradMode::IsEnabled());
            return TensorList{in[0]->Square()};
        },
        {x})[0];
    EXPECT_EQ(Values(y), (Floats{4}));
    EXPECT_FALSE(y->requires_grad());
    EXPECT_EQ(calls, 1);
}

// ---- When it computes again -----------------------------------------------------------------------------------------

TEST(Checkpoint, StopsEarlyUnlessToldNotTo) {
    auto x = Leaf(2);
    int begun = 0, ended = 0;
    const auto body = [&](const TensorList &in) {
        ++begun;
        auto y = in[0]->Square()->Exp();
        auto unused = in[0]->Sin();  // nothing in the graph needs what it saves
        ++ended;
        return TensorList{y + 1};
    };
    Checkpoint(body, {x})[0]->Backward();
    EXPECT_EQ(begun, 2);
    EXPECT_EQ(ended, 1);
    const Floats expected = Values(x->grad());
    x->ZeroGrad();
    Checkpoint(body, {x}, {.early_stop = false})[0]->Backward();
    EXPECT_EQ(begun, 4);
    EXPECT_EQ(ended, 3);
    EXPECT_EQ(Values(x->grad()), expected);
}

TEST(Checkpoint, FunctionThatCatchesEverything) {
    auto x = Leaf(2);
    auto y = Checkpoint(
        [&](const TensorList &in) {
            TensorPtr h;
            try {
                h = in[0]->Square();
            } catch (...) {
                h = in[0]->Square();
            }
            return TensorList{h};
        },
        {x})[0];
    y->Backward();
    EXPECT_EQ(Values(x->grad()), (Floats{4}));
}

// One second call a pass, however often and by whatever a saved tensor is looked at.
TEST(Checkpoint, OneSecondCallAPass) {
    class Twice : public autograd::Function {
    public:
        Twice() : Function("Twice") {}
        TensorList Forward(const TensorList &inputs) override { return {inputs[0] * inputs[1]}; }
        void SetupContext(const TensorList &inputs, const TensorList &) override { ctx_.SaveForBackward(inputs); }
        TensorList Backward(const TensorList &grad_outputs) override {
            return {grad_outputs[0] * ctx_.GetSavedTensors()[1], grad_outputs[0] * ctx_.GetSavedTensors()[0]};
        }
    };
    auto x = Leaf(2), w = Leaf(3);
    int calls = 0;
    auto y = Checkpoint(
        [&](const TensorList &in) {
            ++calls;
            return std::make_shared<Twice>()->Apply({in[0]->Exp(), w});
        },
        {x})[0];
    EXPECT_EQ(calls, 1);
    autograd::Grad({y}, {w}, {}, true);
    EXPECT_EQ(calls, 2);
    y->Backward(nullptr, true);
    EXPECT_EQ(calls, 3);
    const auto by_hand = y->grad_fn()->Backward({Tensor::FromScalar(1)});  // outside of any pass
    EXPECT_EQ(Values(by_hand[0]), (Floats{3}));
    EXPECT_GT(calls, 3);
}

TEST(Checkpoint, PartsOfTheGraphThatAreNotNeededAreNotComputedForNothing) {
    auto x = Leaf(2);
    int calls = 0;
    auto outputs = Checkpoint(
        [&](const TensorList &in) {
            ++calls;
            return TensorList{in[0] + 1, in[0]->Exp()};
        },
        {x});
    outputs[0]->Backward();  // goes through nothing that saved anything
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(Values(x->grad()), (Floats{1}));
}

TEST(Checkpoint, BackwardWithinTheFunction) {
    auto x = Leaf(2), w = Leaf(3);
    const auto body = [&](const TensorList &in) {
        auto y = in[0]->Mul(w)->Square()->Exp()->Log();  // (x w)^2
        auto g = autograd::Grad({y}, {in[0]}, {}, true, /*create_graph=*/true)[0];
        return TensorList{g->Square()};  // (2 x w^2)^2
    };
    for (const bool early_stop : {true, false}) {
        x->ZeroGrad();
        w->ZeroGrad();
        Checkpoint(body, {x}, {.early_stop = early_stop})[0]->Backward();
        EXPECT_NEAR(x->grad()->Item<float>(), 8 * 2 * 81, 0.05);
        EXPECT_NEAR(w->grad()->Item<float>(), 16 * 4 * 27, 0.05);
    }
}

TEST(Checkpoint, PackersAroundItApplyToTheInputs) {
    auto x = Leaf(3);
    auto h = x * 1;
    std::vector<Floats> packed;
    TensorPtr y;
    {
        autograd::SavedTensorHooksGuard guard(
            [&](const TensorPtr &t) {
                packed.push_back(Values(t));
                return std::any(t->To(DataType::kBFLOAT16));
            },
            [](const std::any &a) { return std::any_cast<TensorPtr>(a)->To(DataType::kFLOAT32); });
        h->Mul_(1);  // the copy that comes back is at another version
        y = Checkpoint([](const TensorList &in) { return TensorList{in[0]->Square()->Exp()}; }, {h})[0];
        packed.erase(packed.begin(), packed.end() - 1);
    }
    EXPECT_EQ(packed, (std::vector<Floats>{{3}}));
    h = nullptr;
    y->Backward();
    EXPECT_FLOAT_EQ(x->grad()->Item<float>(), 6 * std::exp(9.0F));
}

TEST(Checkpoint, IsRefusedWhereHooksAreDisabled) {
    const autograd::DisableSavedTensorHooksGuard guard("frozen graph");
    const auto text = Thrown<AutogradError>([] { Checkpoint([](const TensorList &in) { return in; }, {Leaf(1)}); });
    EXPECT_TRUE(Contains(text, "Checkpoint: ") && Contains(text, "frozen graph")) << text;
}

// The guards of whoever runs the backward pass don't reach into the second call.
TEST(Checkpoint, SecondCallHasTheStateOfTheFirst) {
    auto x = Leaf(2);
    auto y = Checkpoint([](const TensorList &in) { return TensorList{in[0]->Square()->Exp()}; }, {x})[0];
    {
        const autograd::DisableSavedTensorHooksGuard disabled("only for what is begun here");
        const autograd::NoGradGuard no_grad;
        y->Backward();
    }
    EXPECT_FALSE(autograd::IsRecomputing());
    EXPECT_FLOAT_EQ(x->grad()->Item<float>(), 4 * std::exp(4.0F));
}

}  // namespace
}  // namespace infini_train
