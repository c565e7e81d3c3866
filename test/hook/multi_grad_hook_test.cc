// Hooks on the gradients of several tensors at once. Where PyTorch has the case, the values are those that
// torch.autograd.graph.register_multi_grad_hook of PyTorch 2.15 gives; the public reports are named.

#include "infini_train/include/autograd/multi_grad_hook.h"

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/autograd/grad.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/tensor.h"

#include "test/support/tensors.h"

namespace infini_train {
namespace {

using autograd::MultiGradMode;
using autograd::RegisterMultiGradHook;
using test::Contains;
using test::Floats;
using test::Leaf;
using test::Of;
using test::Thrown;
using test::Values;

// What one call was given: a number a tensor, nothing for null.
using Call = std::vector<Floats>;
using Calls = std::vector<Call>;

autograd::MultiGradHook Note(Calls *calls) {
    return [calls](const TensorList &grads) {
        Call call;
        for (const auto &grad : grads) {
            call.push_back(Values(grad));
        }
        calls->push_back(call);
    };
}

// PyTorch's own example, with values.
TEST(MultiGradHook, AllWaitsForThoseThatThePassComesTo) {
    auto a = Leaf(2), b = Leaf(3);
    auto c = a * b, d = a * b;
    Calls calls;
    RegisterMultiGradHook({a, b, c, d}, Note(&calls));
    c->Sum()->Backward(nullptr, /*retain_graph=*/true);
    EXPECT_EQ(calls, (Calls{{{3}, {2}, {1}, {}}}));
    (c + d * 10)->Sum()->Backward(nullptr, true);
    EXPECT_EQ(calls.at(1), (Call{{33}, {22}, {1}, {10}}));
    autograd::Grad({c->Sum()}, {a}, {}, true);
    EXPECT_EQ(calls.at(2), (Call{{3}, {}, {1}, {}}));
    EXPECT_EQ(calls.size(), 3U);
}

// PyTorch 2.15 calls its hook here before the gradient of b is there.
TEST(MultiGradHook, TheRootIsOneOfThem) {
    auto a = Leaf(2), b = Leaf(3);
    auto c = a * b;
    Calls calls;
    RegisterMultiGradHook({a, b, c}, Note(&calls));
    c->Backward();
    EXPECT_EQ(calls, (Calls{{{3}, {2}, {1}}}));
}

TEST(MultiGradHook, AnyTellsTheFirst) {
    auto a = Leaf(2), b = Leaf(3);
    auto c = a * b, d = a * b;
    Calls calls;
    RegisterMultiGradHook({a, b, c, d}, Note(&calls), MultiGradMode::kAny);
    c->Sum()->Backward(nullptr, true);
    EXPECT_EQ(calls, (Calls{{{}, {}, {1}, {}}}));
    (c + d * 10)->Sum()->Backward(nullptr, true);
    EXPECT_EQ(calls.size(), 2U);
    EXPECT_EQ(calls.at(1), (Call{{}, {}, {}, {10}}));  // d was made last
    autograd::Grad({c->Sum()}, {a}, {}, true);
    EXPECT_EQ(calls.at(2), (Call{{}, {}, {1}, {}}));
}

// pytorch#131753 and its error about leaves under grad(): it works there, too, and writes no grad().
TEST(MultiGradHook, UnderGradWithLeaves) {
    auto x = Leaf({1, 2}), y = Leaf({3, 4}), unused = Leaf(5);
    Calls all, any;
    RegisterMultiGradHook({x, y, unused}, Note(&all));
    RegisterMultiGradHook({x, y, unused}, Note(&any), MultiGradMode::kAny);
    const auto loss = (x * y)->Sum();
    const auto grads = autograd::Grad({loss}, {x, y}, {}, /*retain_graph=*/true);
    EXPECT_EQ(all, (Calls{{{3, 4}, {1, 2}, {}}}));
    EXPECT_EQ(any.size(), 1U);
    EXPECT_EQ(Values(grads[0]), (Floats{3, 4}));
    EXPECT_EQ(x->grad(), nullptr);
    autograd::Grad({loss}, {y});
    EXPECT_EQ(all.at(1), (Call{{}, {1, 2}, {}}));
    EXPECT_EQ(any.at(1), (Call{{}, {1, 2}, {}}));
}

// pytorch#131753: the next pass starts afresh.
TEST(MultiGradHook, ThatThrowsDoesNotPoisonTheNextPass) {
    for (const auto mode : {MultiGradMode::kAll, MultiGradMode::kAny}) {
        auto x = Leaf(2), y = Leaf(3);
        bool fail = true;
        Calls calls;
        RegisterMultiGradHook({x, y},
                              [&](const TensorList &grads) {
                                  if (fail) {
                                      throw std::runtime_error("boom");
                                  }
                                  Note (&calls)(grads);
                              },
                              mode, {.name = "sum"});
        const auto text = Thrown<std::runtime_error>([&] { (x * y)->Backward(); });
        EXPECT_TRUE(Contains(text, "boom [multi-gradient hook 'sum']")) << text;
        fail = false;
        x->ZeroGrad();
        y->ZeroGrad();
        (x * y)->Backward();
        ASSERT_EQ(calls.size(), 1U);
        EXPECT_EQ(calls[0].size(), 2U);
        if (mode == MultiGradMode::kAll) {
            EXPECT_EQ(calls[0], (Call{{3}, {2}}));
        }
        EXPECT_EQ(Values(x->grad()), (Floats{3}));
    }
}

TEST(MultiGradHook, AnotherHookThatThrowsHalfwayLeavesNothingBehind) {
    auto x = Leaf(2), y = Leaf(3);
    Calls calls;
    RegisterMultiGradHook({x, y}, Note(&calls));
    auto stop = x->RegisterHook([](const TensorPtr &) { throw std::runtime_error("stop"); });
    EXPECT_THROW((x * y)->Backward(), std::runtime_error);
    stop->Remove();
    (x * 5 + y * 7)->Backward();
    EXPECT_EQ(calls, (Calls{{{5}, {7}}}));
}

TEST(MultiGradHook, SeveralGraphsAndRetainedPasses) {
    auto x = Leaf(2), y = Leaf(3);
    auto first = x * y, second = x * 5;
    Calls calls;
    RegisterMultiGradHook({x, y}, Note(&calls));
    second->Backward(nullptr, true);
    first->Backward(nullptr, true);
    second->Backward();
    autograd::Backward({first, x * y * 10});
    EXPECT_EQ(calls, (Calls{{{5}, {}}, {{3}, {2}}, {{5}, {}}, {{33}, {22}}}));
}

TEST(MultiGradHook, PassInsideOfAPass) {
    auto x = Leaf(2), y = Leaf(3);
    Calls calls;
    RegisterMultiGradHook({x, y}, Note(&calls));
    auto product = x * y, early = x * 7, late = x * 8 + y * 9;
    bool waits = false;
    product->RegisterHook([&](const TensorPtr &) {
        early->Backward();
        waits = true;
    });
    x->RegisterHook([&](const TensorPtr &) {
        if (std::exchange(waits, false)) {  // the outer pass has x, and not y
            late->Backward();
        }
    });
    (product + y)->Backward();
    EXPECT_EQ(calls, (Calls{{{7}, {}}, {{8}, {9}}, {{3}, {3}}}));
}

class StopsGradient : public autograd::Function {
public:
    StopsGradient() : Function("StopsGradient") {}
    TensorList Forward(const TensorList &inputs) override { return {inputs[0]->Clone()}; }
    TensorList Backward(const TensorList &) override { return {nullptr}; }
};

TEST(MultiGradHook, GradientsThatAreNull) {
    auto a = Leaf({1, 2}), b = Leaf(3);
    auto parts = a->Unbind();
    Calls all, any;
    RegisterMultiGradHook({parts[0], parts[1], b}, Note(&all));
    RegisterMultiGradHook({parts[0], parts[1], b}, Note(&any), MultiGradMode::kAny);
    (parts[1] + std::make_shared<StopsGradient>()->Apply({b})[0]->Sum())->Backward();
    EXPECT_EQ(all, (Calls{{{}, {1}, {}}}));
    EXPECT_EQ(any, (Calls{{{}, {1}, {}}}));
}

TEST(MultiGradHook, SameTensorTwiceAndOnesWithoutGradient) {
    auto x = Leaf(2), frozen = Of({1});
    Calls calls;
    RegisterMultiGradHook({x, frozen, x}, Note(&calls));
    (x * 3)->Backward();
    EXPECT_EQ(calls, (Calls{{{3}, {}, {3}}}));
}

TEST(MultiGradHook, SeesWhatEarlierHooksLeftAndKeepsItFromLaterOnes) {
    auto x = Leaf(2), y = Leaf(3);
    Calls calls;
    x->RegisterHook([](const TensorPtr &grad) { return grad->Mul(10); });
    RegisterMultiGradHook({x, y}, Note(&calls));
    x->RegisterHook([](const TensorPtr &grad) { grad->Mul_(100); });
    y->RegisterHook([](const TensorPtr &grad) { grad->Mul_(100); });
    (x * y)->Backward();
    EXPECT_EQ(calls, (Calls{{{30}, {2}}}));
    EXPECT_EQ(Values(x->grad()), (Floats{3000}));
    EXPECT_EQ(Values(y->grad()), (Floats{200}));
    Calls first;
    RegisterMultiGradHook({x, y}, Note(&first), MultiGradMode::kAll, {.prepend = true});
    (x * y)->Backward();
    EXPECT_EQ(first, (Calls{{{3}, {2}}}));
}

TEST(MultiGradHook, ChangingAGradientInPlaceIsAnError) {
    auto x = Leaf(2), y = Leaf(3);
    RegisterMultiGradHook({x, y}, [](const TensorList &grads) { grads[1]->Mul_(2); }, MultiGradMode::kAll,
                          {.name = "scale"});
    const auto text = Thrown<AutogradError>([&] { (x * y)->Backward(); });
    EXPECT_TRUE(Contains(text, "multi-gradient hook 'scale': it changed gradient 1 of shape ()")) << text;

    auto z = Leaf(4);
    Calls calls;
    RegisterMultiGradHook({z}, [&](const TensorList &grads) { Note (&calls)({grads[0]->Clone()->Mul_(2)}); });
    (z * 5)->Backward();
    EXPECT_EQ(calls, (Calls{{{10}}}));
    EXPECT_EQ(Values(z->grad()), (Floats{5}));
}

// pytorch#79767: a hook stays with the value that it was registered on.
TEST(MultiGradHook, TensorChangedInPlaceAndLeafGivenOtherData) {
    auto a = Leaf(1);
    auto y = a->Clone();
    Calls calls;
    RegisterMultiGradHook({y, a}, Note(&calls));
    y->Mul_(2);
    (y * 3)->Backward();
    EXPECT_EQ(calls, (Calls{{{6}, {6}}}));
    a->SetData(Of({1, 1}));
    a->Mul(4)->Sum()->Backward();
    EXPECT_EQ(calls.at(1), (Call{{}, {4, 4}}));
}

TEST(MultiGradHook, GradientsOfARecordedPassCanBeDifferentiated) {
    auto x = Leaf(2), y = Leaf(3);
    TensorPtr norm;
    auto handle =
        RegisterMultiGradHook({x, y}, [&](const TensorList &grads) { norm = grads[0]->Square() + grads[1]->Square(); });
    (x->Square() * y)->Backward(nullptr, true, /*create_graph=*/true);
    EXPECT_EQ(Values(norm), (Floats{160}));  // (2xy)^2 + x^4 = 144 + 16
    handle->Remove();
    EXPECT_EQ(Values(autograd::Grad({norm}, {x})[0]), (Floats{176}));  // 8 x y^2 + 4 x^3
    x->ZeroGrad();  // a recorded gradient holds the graph, which holds the leaf
    y->ZeroGrad();
}

TEST(MultiGradHook, Handles) {
    auto x = Leaf(2), y = Leaf(3);
    Calls calls;
    auto handle = RegisterMultiGradHook({x, y}, Note(&calls), MultiGradMode::kAll, {.name = "h", .enabled = false});
    const auto pass = [&] { (x * y)->Backward(); };
    pass();
    EXPECT_FALSE(handle->IsActive());
    EXPECT_EQ(handle->Calls(), 0U);
    handle->Enable();
    pass();
    pass();
    EXPECT_EQ(handle->Calls(), 2U);
    EXPECT_EQ(handle->Name(), "h");
    handle->Disable();
    pass();
    EXPECT_EQ(calls.size(), 2U);
    handle->Enable();
    handle->Remove();
    handle->Remove();
    pass();
    EXPECT_EQ(calls.size(), 2U);
    EXPECT_FALSE(handle->IsActive());

    auto twice = RegisterMultiGradHook({x, y}, Note(&calls), MultiGradMode::kAny, {.max_calls = 2});
    pass();
    pass();
    pass();
    EXPECT_EQ(calls.size(), 4U);
    EXPECT_FALSE(twice->IsActive());
}

TEST(MultiGradHook, RegisteredDisabledAndRemovedDuringAPass) {
    auto x = Leaf(2);
    auto y = x * 3;
    Calls calls, removed;
    auto enabled = RegisterMultiGradHook({x, y}, Note(&removed), MultiGradMode::kAll, {.enabled = false});
    std::shared_ptr<HookHandle> handle;
    auto once = y->RegisterHook([&](const TensorPtr &) {
        enabled->Enable();  // y's part is over, so this pass is no more a whole one
        handle = RegisterMultiGradHook({x, y}, Note(&calls));
    });
    y->Backward(nullptr, true);
    EXPECT_TRUE(calls.empty() && removed.empty());
    once->Remove();
    y->RegisterHook([&](const TensorPtr &) { handle->Remove(); });
    y->Backward();
    EXPECT_TRUE(calls.empty());
    EXPECT_EQ(removed, (Calls{{{3}, {1}}}));
}

TEST(MultiGradHook, HoldsNoTensorAndOutlivesThem) {
    auto x = Leaf(2);
    auto y = x * 3;
    std::weak_ptr<Tensor> weak_x = x, weak_y = y;
    std::weak_ptr<autograd::Function> weak_function = y->grad_fn();
    auto token = std::make_shared<int>(0);
    std::weak_ptr<int> weak_token = token;
    auto kept = Leaf(5);
    Calls calls;
    auto handle =
        RegisterMultiGradHook({x, y, kept}, [token, &calls](const TensorList &grads) { Note (&calls)(grads); });
    token.reset();
    x.reset();
    y.reset();
    EXPECT_TRUE(weak_x.expired() && weak_y.expired() && weak_function.expired());
    (kept * 4)->Backward();
    EXPECT_EQ(calls, (Calls{{{}, {}, {4}}}));
    EXPECT_FALSE(weak_token.expired());
    kept.reset();
    EXPECT_TRUE(weak_token.expired());
    handle->Disable();
    handle->Remove();
}

TEST(MultiGradHook, ThreadsKeepTheirPassesApart) {
    auto x = Tensor::FromScalar(2.0, DataType::kFLOAT64, test::TestDevice())->RequiresGrad();
    auto y = Tensor::FromScalar(3.0, DataType::kFLOAT64, test::TestDevice())->RequiresGrad();
    constexpr int kPasses = 200;
    std::atomic<int> all{0}, any{0}, mixed{0};
    auto handle = RegisterMultiGradHook({x, y}, [&](const TensorList &grads) {
        // Each thread's gradients of x and y belong together.
        mixed += grads[1]->Item<double>() != 10 * grads[0]->Item<double>();
        ++all;
    });
    RegisterMultiGradHook(
        {x, y}, [&](const TensorList &) { ++any; }, MultiGradMode::kAny);
    std::vector<std::thread> threads;
    for (int t = 1; t <= 2; ++t) {
        threads.emplace_back([&, t] {
            for (int i = 1; i <= kPasses; ++i) {
                (x * (t * i) + y * (10 * t * i))->Backward();
                if (i % 10 == 0) {
                    RegisterMultiGradHook({x, y}, [](const TensorList &) {})->Remove();
                }
            }
        });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    EXPECT_EQ(all, 2 * kPasses);
    EXPECT_EQ(any, 2 * kPasses);
    EXPECT_EQ(mixed, 0);
    EXPECT_EQ(handle->Calls(), 2U * kPasses);
}

TEST(MultiGradHook, BadInput) {
    auto x = Leaf(2);
    const auto hook = [](const TensorList &) {};
    EXPECT_EQ(Thrown<ValueError>([&] {
                  RegisterMultiGradHook({x, nullptr}, hook);
              }),
              "RegisterMultiGradHook: tensor 1 is null");
    EXPECT_EQ(Thrown<ValueError>([&] { RegisterMultiGradHook({x}, nullptr); }),
              "RegisterMultiGradHook: expected a callable, got an empty function");
    EXPECT_EQ(Thrown<AutogradError>([&] {
                  RegisterMultiGradHook({Of({1}), Of({2})}, hook);
              }),
              "RegisterMultiGradHook: expected a tensor that requires a gradient, got 2 that don't");
    EXPECT_EQ(Thrown<AutogradError>([&] { RegisterMultiGradHook({}, hook); }),
              "RegisterMultiGradHook: expected a tensor that requires a gradient, got 0 that don't");
}

}  // namespace
}  // namespace infini_train
