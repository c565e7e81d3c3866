// Checkpoint: what differs in a second call is noticed; random numbers and threads.

#include <atomic>
#include <cmath>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/checkpoint.h"
#include "infini_train/include/autograd/dropout.h"
#include "infini_train/include/autograd/grad.h"
#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/core/generator.h"
#include "infini_train/include/nn/modules/activations.h"
#include "infini_train/include/nn/modules/container.h"
#include "infini_train/include/nn/modules/dropout.h"
#include "infini_train/include/tensor.h"

#include "test/support/tensors.h"

namespace infini_train {
namespace {

using autograd::Checkpoint;
using autograd::IsRecomputing;
using test::Contains;
using test::Floats;
using test::Leaf;
using test::Thrown;
using test::Values;
using Body = std::function<TensorList(const TensorList &)>;

// ---- What differs ---------------------------------------------------------------------------------------------------

// The text of the error of a backward pass through a function that is `first`, then `second`.
std::string Difference(const Body &first, const Body &second, const autograd::CheckpointOptions &options = {}) {
    auto x = Leaf({1, 2});
    bool again = false;
    const auto y = Checkpoint([&](const TensorList &in) { return std::exchange(again, true) ? second(in) : first(in); },
                              {x}, options)[0];
    const auto text = Thrown<AutogradError>([&] { y->Sum()->Backward(); });
    EXPECT_EQ(x->grad() == nullptr, !text.empty());
    EXPECT_TRUE(text.empty() || Contains(text, "[in the recomputation of a checkpoint]")) << text;
    return text;
}

TEST(CheckpointCheck, SaysWhichSavedTensorDiffersAndHow) {
    const Body two = [](const TensorList &in) { return TensorList{in[0]->Square()->Exp()}; };
    const auto expect = [&](const Body &second, const std::vector<std::string> &parts) {
        const auto text = Difference(two, second);
        for (const auto &part : parts) {
            EXPECT_TRUE(Contains(text, part)) << part << " is not in: " << text;
        }
    };
    expect([](const TensorList &in) { return TensorList{in[0]->Square()}; },
           {"Checkpoint: the recomputation differs", "it saved 1 tensors, the forward pass 2"});
    expect(
        [](const TensorList &in) {
            return TensorList{in[0]->Expand({3, 2})->Square()->Exp()};
        },
        {"saved tensor 1 of 2 is float32 of shape (3, 2) on CPU, saved by Square",
         "in the forward pass it was float32 of shape (2,) on CPU, saved by Square"});
    expect([](const TensorList &in) { return TensorList{in[0]->Square()->To(DataType::kFLOAT64)->Exp()}; },
           {"saved tensor 2 of 2 is float64 of shape (2,) on CPU, saved by Exp", "it was float32"});
    expect([](const TensorList &in) { return TensorList{in[0]->Square()->Tanh()}; },
           {"saved tensor 2 of 2 is float32 of shape (2,) on CPU, saved by Tanh", "saved by Exp"});
    // More than before is noticed if it isn't stopped before.
    const Body three = [](const TensorList &in) { return TensorList{in[0]->Square()->Exp()->Exp()}; };
    EXPECT_EQ(Difference(two, three), "");
    EXPECT_TRUE(Contains(Difference(two, three, {.early_stop = false}), "it saved 3 tensors, the forward pass 2"));
}

// A module that differs is named by its path.
TEST(CheckpointCheck, NamesTheModule) {
    auto x = Leaf({1, 2});
    auto dropout = std::make_shared<nn::Dropout>(0.5);
    auto net = std::make_shared<nn::Sequential>(std::make_shared<nn::Tanh>(), dropout, std::make_shared<nn::Tanh>());
    auto y = Checkpoint(net, {x})[0];
    dropout->Eval();
    const auto text = Thrown<AutogradError>([&] { y->Sum()->Backward(); });
    EXPECT_TRUE(Contains(text, "saved tensor 2 of 3 is float32 of shape (2,) on CPU, saved by Tanh")) << text;
    EXPECT_TRUE(Contains(text, "[in module 2 (Tanh)]")) << text;
    // With the graph as it was, the pass can be run again.
    dropout->Train();
    y->Sum()->Backward();
    EXPECT_NE(x->grad(), nullptr);
}

TEST(CheckpointCheck, FunctionThatHidesTheDifference) {
    const auto text = Difference([](const TensorList &in) { return TensorList{in[0]->Square()->Exp()}; },
                                 [](const TensorList &in) {
                                     try {
                                         in[0]->Tanh();
                                     } catch (...) {
                                     }
                                     return TensorList{in[0]->Exp()};
                                 });
    EXPECT_TRUE(Contains(text, "saved tensor 1 of 2")) << text;
}

TEST(CheckpointCheck, CanBeTurnedOff) {
    auto x = Leaf(2);
    bool again = false;
    auto y = Checkpoint(
        [&](const TensorList &in) {
            return TensorList{std::exchange(again, true) ? in[0]->Exp()->Mul(1) : in[0]->Tanh()};
        },
        {x}, {.check_determinism = false})[0];
    y->Backward();
    EXPECT_FLOAT_EQ(x->grad()->Item<float>(), 1 - std::exp(4.0F));  // as it was asked for
    // What can't be used is an error all the same.
    again = false;
    y = Checkpoint(
        [&](const TensorList &in) {
            return TensorList{std::exchange(again, true) ? in[0]->Expand({2})->Exp() : in[0]->Exp()};
        },
        {x}, {.check_determinism = false})[0];
    const auto text = Thrown<AutogradError>([&] { y->Backward(); });
    EXPECT_TRUE(Contains(text, "Exp: ") && Contains(text, "gave (2,), float32 on CPU where (), float32")) << text;
}

TEST(CheckpointCheck, ErrorsOfTheFunctionKeepTheirType) {
    auto x = Leaf(2);
    bool fails = true;
    EXPECT_THROW(Checkpoint([](const TensorList &) -> TensorList { throw std::out_of_range("first"); }, {x}),
                 std::out_of_range);
    auto y = Checkpoint(
        [&](const TensorList &in) {
            if (IsRecomputing() && fails) {
                throw std::out_of_range("second");
            }
            return TensorList{in[0]->Square()};
        },
        {x})[0];
    const auto text = Thrown<std::out_of_range>([&] { y->Backward(); });
    EXPECT_TRUE(Contains(text, "second") && Contains(text, "recomputation of a checkpoint")) << text;
    EXPECT_FALSE(IsRecomputing());
    EXPECT_TRUE(autograd::GradMode::IsEnabled());
    EXPECT_EQ(x->grad(), nullptr);
    fails = false;
    y->Backward();
    EXPECT_EQ(Values(x->grad()), (Floats{4}));
}

// ---- Changes in place -----------------------------------------------------------------------------------------------

TEST(CheckpointCheck, InputChangedByTheFunctionIsRefusedAtOnce) {
    auto x = Leaf(2);
    const Body body = [](const TensorList &in) { return TensorList{in[0]->Mul_(2)->Square()}; };
    const auto text = Thrown<AutogradError>([&] { Checkpoint(body, {x * 1}); });
    EXPECT_TRUE(Contains(text, "changed its input 0 of shape () in place") && Contains(text, "Clone")) << text;
    EXPECT_EQ(Values(Checkpoint(body, {Tensor::FromScalar(3)})[0]), (Floats{36}));  // nothing is recorded
}

TEST(CheckpointCheck, ChangesSinceTheFirstCallAreNoticed) {
    const auto thrown = [](const TensorPtr &input, const TensorPtr &captured, const TensorPtr &changed) {
        auto y = Checkpoint([&](const TensorList &in) { return TensorList{in[0]->Mul(captured)->Exp()}; }, {input})[0];
        changed->Detach()->Add_(1);
        return Thrown<AutogradError>([&] { y->Backward(); });
    };
    auto x = Leaf(2), w = Leaf(3), plain = Tensor::FromScalar(5);
    auto text = thrown(x, w, x);
    EXPECT_TRUE(Contains(text, "Checkpoint: ") && Contains(text, "changed in place since")) << text;
    text = thrown(plain, w, plain);
    EXPECT_TRUE(Contains(text, "Checkpoint: ") && Contains(text, "changed in place since")) << text;
    for (const auto &captured : {w, plain}) {
        text = thrown(x, captured, captured);
        EXPECT_TRUE(Contains(text, "saved by Mul") && Contains(text, "changed in place since")) << text;
    }
    EXPECT_EQ(x->grad(), nullptr);
    EXPECT_EQ(w->grad(), nullptr);
}

// The second call goes on and changes what it has saved, as the first did.
TEST(CheckpointCheck, SavedTensorChangedLaterInTheFunction) {
    auto x = Leaf(2);
    auto y = Checkpoint(
        [](const TensorList &in) {
            auto h = in[0] * 3;
            auto square = h->Square();
            h->Mul_(2);
            return TensorList{square + h->Exp()};
        },
        {x})[0];
    const auto text = Thrown<AutogradError>([&] { y->Backward(); });
    EXPECT_TRUE(Contains(text, "Square: ") && Contains(text, "changed in place since")) << text;
    EXPECT_EQ(x->grad(), nullptr);
}

// ---- Random numbers -------------------------------------------------------------------------------------------------

TEST(CheckpointRandom, DropoutHasTheSameMask) {
    auto x = Tensor::Ones({64})->RequiresGrad();
    Generator own(9);
    const auto body = [&](const TensorList &in) {
        auto h = autograd::Dropout::Run(in[0], 0.5, true)->Square();
        return TensorList{autograd::Dropout::Run(h, 0.5, true, &own)};
    };
    ManualSeed(3);
    const auto before = own.GetState();
    auto y = Checkpoint(body, {x})[0];
    const auto after = DefaultGenerator().GetState();
    const auto after_own = own.GetState();
    EXPECT_NE(after_own, before);
    Tensor::Rand({5});  // others go on drawing
    const auto now = DefaultGenerator().GetState();
    EXPECT_NE(now, after);
    y->Backward(Tensor::Ones({64}));
    for (size_t i = 0; i < 64; ++i) {
        const float out = Values(y)[i], gradient = Values(x->grad())[i];
        EXPECT_EQ(gradient, 2 * out);  // y = 8 x^2 or 0
    }
    EXPECT_EQ(DefaultGenerator().GetState(), now);
    EXPECT_EQ(own.GetState(), after_own);
}

// Seeding within the function is part of what it does, the first time.
TEST(CheckpointRandom, SeedingWithinTheFunction) {
    auto x = Tensor::Ones({16})->RequiresGrad();
    const auto body = [](const TensorList &in) {
        const auto before = DefaultGenerator().GetState();
        ManualSeed(42);
        auto y = in[0]->Mul(Tensor::Rand({16}));
        DefaultGenerator().SetState(before);
        return TensorList{y->Mul(Tensor::Rand({16}))->Square()};
    };
    ManualSeed(1);
    body({x})[0]->Sum()->Backward();
    const auto expected = Values(x->grad());
    x->ZeroGrad();
    ManualSeed(1);
    auto y = Checkpoint(body, {x})[0];
    const auto after = DefaultGenerator().GetState();
    y->Sum()->Backward();
    EXPECT_EQ(Values(x->grad()), expected);
    EXPECT_EQ(DefaultGenerator().GetState(), after);
}

TEST(CheckpointRandom, OtherDrawsAreAnError) {
    const auto body = [](int64_t size) {
        return [size](const TensorList &in) {
            return TensorList{in[0]->Mul(Tensor::Rand({size})->Slice(0, 0, 2))->Square()};
        };
    };
    auto text = Difference(body(16), body(32));
    EXPECT_TRUE(Contains(text, "8 blocks of random numbers are drawn where the first time it was 4")) << text;
    text = Difference([](const TensorList &in) { return TensorList{in[0]->Square()->Exp()}; },
                      [&](const TensorList &in) { return body(16)(in); });
    EXPECT_TRUE(Contains(text, "4 more blocks of random numbers are drawn than the first time")) << text;
}

// ---- Threads --------------------------------------------------------------------------------------------------------

TEST(CheckpointThreads, BackwardInAnotherThreadWhileOthersDraw) {
    auto w = Tensor::Ones({256})->RequiresGrad();
    const Body body = [&](const TensorList &in) {
        return TensorList{autograd::Dropout::Run(in[0]->Mul(w), 0.5, true)->Square()};
    };
    std::atomic<bool> stop{false};
    std::thread noise([&] {
        while (!stop) {
            DefaultGenerator().NextDouble();
        }
    });
    auto x = Tensor::Ones({256})->RequiresGrad();
    for (int i = 0; i < 50; ++i) {
        auto y = Checkpoint(body, {Checkpoint(body, {x})[0]})[0];
        std::thread([&] { y->Sum()->Backward(); }).join();
        // y = (m2 w (m1 x w)^2)^2 with masks of 0 and 2: 64 or 0, and its gradients are 4 y / x and 6 y / w.
        for (size_t k = 0; k < 256; ++k) {
            const float out = Values(y)[k];
            ASSERT_EQ(Values(x->grad())[k], 4 * out);
            ASSERT_EQ(Values(w->grad())[k], 6 * out);
        }
        x->ZeroGrad();
        w->ZeroGrad();
    }
    stop = true;
    noise.join();
}

TEST(CheckpointThreads, SeveralPassesThroughOneGraphAtOnce) {
    auto x = Leaf(2), w = Leaf(3);
    std::atomic<int> calls{0};
    auto y = Checkpoint(
        [&](const TensorList &in) {
            ++calls;
            return TensorList{in[0]->Mul(w)->Square()};
        },
        {x})[0];
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            for (int k = 0; k < 25; ++k) {
                EXPECT_EQ(Values(autograd::Grad({y}, {x}, {}, true)[0]), (Floats{36}));
            }
        });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    EXPECT_EQ(calls, 101);
}

}  // namespace
}  // namespace infini_train
