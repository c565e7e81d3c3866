// Hooks that run when the gradients of all parameters of a module have been accumulated (wanted in pytorch#76464;
// PyTorch has them for one tensor only). Expected values are worked out by hand, or are those of a training step by
// step.

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/autograd/grad.h"
#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/nn/modules/activations.h"
#include "infini_train/include/nn/modules/container.h"
#include "infini_train/include/nn/modules/linear.h"
#include "infini_train/include/optimizer.h"
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
using Log = std::vector<std::string>;

// y = w x + v, or without v where `use_v` is off.
class Affine : public nn::CloneableModule<Affine> {
public:
    explicit Affine(float w = 2, float v = 3) : CloneableModule("Affine") {
        RegisterParameter("w", Leaf(w));
        RegisterParameter("v", Leaf(v));
    }
    TensorList Forward(const TensorList &inputs) override {
        const auto product = parameter("w") * inputs[0];
        return {use_v ? product + parameter("v") : product};
    }
    bool use_v = true;

    using Module::RegisterModule;
    using Module::RegisterParameter;
};

std::vector<Floats> Gradients(const nn::Module &module) {
    std::vector<Floats> gradients;
    for (const auto &parameter : module.Parameters()) {
        gradients.push_back(Values(parameter->grad()));
    }
    return gradients;
}

// Notes the gradients that a module has when its hook runs.
auto Note(std::vector<std::vector<Floats>> *calls) {
    return [calls](nn::Module *module) { calls->push_back(Gradients(*module)); };
}

TEST(ModulePostAccumulate, OncePerPassWhenAllAreThere) {
    auto module = std::make_shared<Affine>();
    std::vector<std::vector<Floats>> calls;
    auto handle = module->RegisterPostAccumulateGradHook(Note(&calls));
    const auto y = ((*module)({(*module)({Of({5})})[0]}))[0];  // w (w 5 + v) + v
    y->Backward(nullptr, /*retain_graph=*/true);
    EXPECT_EQ(calls, (std::vector<std::vector<Floats>>{{{23}, {3}}}));  // 2 w 5 + v, w + 1
    y->Backward();
    EXPECT_EQ(calls.size(), 2U);
    EXPECT_EQ(calls[1], (std::vector<Floats>{{46}, {6}}));  // accumulated over the passes
    EXPECT_EQ(handle->Calls(), 2U);
}

TEST(ModulePostAccumulate, WaitsOnlyForWhatThePassComesTo) {
    auto module = std::make_shared<Affine>();
    std::vector<std::vector<Floats>> calls;
    module->RegisterPostAccumulateGradHook(Note(&calls));
    module->use_v = false;
    (*module)({Of({5})})[0]->Backward();
    EXPECT_EQ(calls, (std::vector<std::vector<Floats>>{{{5}, {}}}));
    // Recorded, but no part of the pass.
    const auto unused = module->parameter("v") * 3;
    (module->parameter("w") * 4)->Backward();
    EXPECT_EQ(calls.at(1), (std::vector<Floats>{{9}, {}}));
    auto other = Leaf(1);
    (other * 2)->Backward();
    EXPECT_EQ(calls.size(), 2U);
}

class StopsGradient : public autograd::Function {
public:
    StopsGradient() : Function("StopsGradient") {}
    TensorList Forward(const TensorList &inputs) override { return {inputs[0]->Clone()}; }
    TensorList Backward(const TensorList &) override { return {nullptr}; }
};

TEST(ModulePostAccumulate, NullGradientsAreNotWaitedFor) {
    auto module = std::make_shared<Affine>();
    std::vector<std::vector<Floats>> calls;
    module->RegisterPostAccumulateGradHook(Note(&calls));
    const auto stopped = [&](const char *name) {
        return std::make_shared<StopsGradient>()->Apply({module->parameter(name)})[0];
    };
    (stopped("w") + module->parameter("v") * 7)->Backward();
    (module->parameter("v") * 7 + stopped("w"))->Backward();
    EXPECT_EQ(calls, (std::vector<std::vector<Floats>>{{{}, {7}}, {{}, {14}}}));
    (stopped("w") + stopped("v"))->Backward();  // nothing is accumulated at all
    EXPECT_EQ(calls.size(), 2U);
}

TEST(ModulePostAccumulate, NotUnderGrad) {
    auto module = std::make_shared<Affine>();
    int calls = 0;
    module->RegisterPostAccumulateGradHook([&](nn::Module *) { ++calls; });
    autograd::Grad({(*module)({Of({5})})[0]}, module->Parameters());
    {
        const autograd::NoGradGuard no_grad;
        (*module)({Of({5})});
    }
    EXPECT_EQ(calls, 0);
}

TEST(ModulePostAccumulate, InnerBeforeOuterAndAfterTheLeavesOwn) {
    auto a = std::make_shared<Affine>(), b = std::make_shared<Affine>();
    auto inner = std::make_shared<nn::Sequential>(std::vector<std::shared_ptr<nn::Module>>{a});
    auto outer = std::make_shared<nn::Sequential>(std::vector<std::shared_ptr<nn::Module>>{b, inner});
    Log log;
    const auto note = [&](nn::Module &module, const std::string &name) {
        module.RegisterPostAccumulateGradHook([&log, name](nn::Module *) { log.push_back(name); });
    };
    note(*outer, "outer");  // outer first, which doesn't matter
    note(*inner, "inner");
    note(*a, "a");
    note(*b, "b");
    for (const auto &[name, leaf] : outer->NamedParameters()) {
        leaf->RegisterPostAccumulateGradHook([&log, name = name](const TensorPtr &) { log.push_back(name); });
    }
    (*outer)({Of({5})})[0]->Backward();
    // The addition of v lies behind the product with w.
    EXPECT_EQ(log, (Log{"1.0.v", "1.0.w", "a", "inner", "0.v", "0.w", "b", "outer"}));
}

TEST(ModulePostAccumulate, TiedParameters) {
    auto first = std::make_shared<Affine>(), second = std::make_shared<Affine>();
    *second->mutable_parameter("w") = first->parameter("w");
    std::vector<std::vector<Floats>> of_first, of_second, of_both;
    auto both = std::make_shared<nn::Sequential>(std::vector<std::shared_ptr<nn::Module>>{first, second});
    first->RegisterPostAccumulateGradHook(Note(&of_first));
    second->RegisterPostAccumulateGradHook(Note(&of_second));
    both->RegisterPostAccumulateGradHook(Note(&of_both));
    (*both)({Of({5})})[0]->Backward();
    EXPECT_EQ(of_first, (std::vector<std::vector<Floats>>{{{23}, {2}}}));
    EXPECT_EQ(of_second, (std::vector<std::vector<Floats>>{{{23}, {1}}}));
    EXPECT_EQ(of_both, (std::vector<std::vector<Floats>>{{{23}, {2}, {1}}}));
}

// ---- Training inside of the backward pass ---------------------------------------------------------------------------

std::shared_ptr<nn::Sequential> Mlp() {
    auto mlp = std::make_shared<nn::Sequential>(std::vector<std::shared_ptr<nn::Module>>{
        std::make_shared<nn::Linear>(2, 3, /*bias=*/true, test::TestDevice()), std::make_shared<nn::Sigmoid>(),
        std::make_shared<nn::Linear>(3, 1, /*bias=*/true, test::TestDevice())});
    float value = -0.5F;
    for (const auto &parameter : mlp->Parameters()) {
        const autograd::NoGradGuard no_grad;
        for (int64_t i = 0; i < parameter->NumElements(); ++i) {
            parameter->Flatten()->Slice(0, i, i + 1)->Fill_(value += 0.15F);
        }
    }
    return mlp;
}

TEST(ModulePostAccumulate, StepsAndFreesWithinThePass) {
    auto plain = Mlp(), fused = Mlp();
    optimizers::Adam optimizer(plain->Parameters(), 0.1);
    std::vector<std::shared_ptr<Optimizer>> optimizers;
    std::vector<int> alive;
    for (const auto &[name, layer] : fused->NamedChildren()) {
        if (layer->Parameters().empty()) {
            continue;
        }
        optimizers.push_back(std::make_shared<optimizers::Adam>(layer->Parameters(), 0.1));
        layer->RegisterPostAccumulateGradHook([&, own = optimizers.back()](nn::Module *) {
            int count = 0;
            for (const auto &parameter : fused->Parameters()) {
                count += parameter->grad() != nullptr;
            }
            alive.push_back(count);
            own->Step();
            own->ZeroGrad();
        });
    }
    const auto x = Of({1, -1, 0.5F, 2, -2, 0}, {3, 2});
    for (int step = 0; step < 5; ++step) {
        (*plain)({x})[0]->Square()->Mean()->Backward();
        optimizer.Step();
        optimizer.ZeroGrad();
        (*fused)({x})[0]->Square()->Mean()->Backward();
    }
    for (const auto &[name, parameter] : fused->NamedParameters()) {
        EXPECT_EQ(Values(parameter), Values(plain->module(name.substr(0, 1))->parameter(name.substr(2)))) << name;
        EXPECT_EQ(parameter->grad(), nullptr);
    }
    EXPECT_EQ(alive, std::vector<int>(10, 2));  // never the gradients of both layers
}

// ---- Modules that change --------------------------------------------------------------------------------------------

TEST(ModulePostAccumulate, ParametersReplacedAfterRegistration) {
    auto module = std::make_shared<Affine>();
    std::vector<std::vector<Floats>> calls;
    module->RegisterPostAccumulateGradHook(Note(&calls));
    const auto old = module->parameter("w");
    *module->mutable_parameter("w") = Leaf(10);
    *module->mutable_parameter("v") = Leaf(20);
    (*module)({Of({5})})[0]->Backward();
    EXPECT_EQ(calls, (std::vector<std::vector<Floats>>{{{5}, {1}}}));
    (old * 2)->Backward();  // none of the module's any more
    EXPECT_EQ(calls.size(), 1U);
    // The old one and new ones in one pass, without a call of the module.
    *module->mutable_parameter("w") = Leaf(1);
    (old * 2 + module->parameter("w") * 3 + module->parameter("v"))->Backward();
    EXPECT_EQ(calls.size(), 2U);
    EXPECT_EQ(calls.back(), (std::vector<Floats>{{3}, {2}}));
}

TEST(ModulePostAccumulate, PartsAddedToAndReplacedInAListThatIsNeverCalled) {
    auto list = std::make_shared<nn::ModuleList>();
    std::vector<std::vector<Floats>> calls;
    list->RegisterPostAccumulateGradHook(Note(&calls));
    auto first = std::make_shared<Affine>();
    list->Append(first);
    (*first)({Of({5})})[0]->Backward();
    EXPECT_EQ(calls, (std::vector<std::vector<Floats>>{{{5}, {1}}}));
    *first->mutable_parameter("w") = Leaf(1);
    *first->mutable_parameter("v") = Leaf(1);
    (*first)({Of({6})})[0]->Backward();
    EXPECT_EQ(calls.at(1), (std::vector<Floats>{{6}, {1}}));
    first->RegisterParameter("u", Leaf(1));
    (first->parameter("u") * 9)->Backward();
    EXPECT_EQ(calls.at(2), (std::vector<Floats>{{6}, {1}, {9}}));
    auto inner = std::make_shared<Affine>();
    first->RegisterModule("inner", inner);
    (*inner)({Of({7})})[0]->Backward();
    EXPECT_EQ(calls.at(3), (std::vector<Floats>{{6}, {1}, {9}, {7}, {1}}));
}

TEST(ModulePostAccumulate, FrozenAndUnfrozen) {
    auto module = std::make_shared<Affine>();
    module->RequiresGrad(false);
    std::vector<std::vector<Floats>> calls;
    module->RegisterPostAccumulateGradHook(Note(&calls));
    module->parameter("w")->set_requires_grad(true);
    (*module)({Of({5})})[0]->Backward();
    EXPECT_EQ(calls, (std::vector<std::vector<Floats>>{{{5}, {}}}));
    module->RequiresGrad();
    (*module)({Of({5})})[0]->Backward();
    EXPECT_EQ(calls.at(1), (std::vector<Floats>{{10}, {1}}));
    module->To(DataType::kFLOAT64);
    (*module)({Of({5})->To(DataType::kFLOAT64)})[0]->Sum()->Backward();
    EXPECT_EQ(calls.size(), 3U);
    EXPECT_EQ(module->parameter("w")->grad()->ToVector<double>(), (std::vector<double>{15}));
}

TEST(ModulePostAccumulate, Clones) {
    auto module = std::make_shared<nn::Sequential>(
        std::vector<std::shared_ptr<nn::Module>>{std::make_shared<Affine>(), std::make_shared<Affine>()});
    std::vector<nn::Module *> called;
    auto handle = module->RegisterPostAccumulateGradHook([&](nn::Module *which) { called.push_back(which); });
    auto copy = module->Clone();
    (*copy)({Of({5})})[0]->Backward();
    EXPECT_EQ(called, (std::vector<nn::Module *>{copy.get()}));
    handle->Remove();
    (*module)({Of({5})})[0]->Backward();
    EXPECT_EQ(called.size(), 1U);
    copy->module("0")->parameter("w")->Mul(2)->Backward();
    EXPECT_EQ(called.size(), 2U);
}

class RegistersInItsConstructor : public Affine {
public:
    explicit RegistersInItsConstructor(int *calls) {
        RegisterPostAccumulateGradHook([calls](nn::Module *) { ++*calls; });
    }
};

TEST(ModulePostAccumulate, LifeOfTheModule) {
    int calls = 0;
    auto token = std::make_shared<int>(0);
    std::weak_ptr<int> weak_token = token;
    auto module = std::make_shared<RegistersInItsConstructor>(&calls);
    module->RegisterPostAccumulateGradHook([token](nn::Module *) {});
    token.reset();
    const auto w = module->parameter("w");
    auto y = (*module)({Of({5})})[0];
    y->Backward(nullptr, true);
    EXPECT_EQ(calls, 1);
    std::weak_ptr<nn::Module> weak_module = module;
    module.reset();  // nobody is left to be told
    EXPECT_TRUE(weak_module.expired() && weak_token.expired());
    y->Backward();
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(Values(w->grad()), (Floats{10}));

    std::optional<RegistersInItsConstructor> on_the_stack(std::in_place, &calls);
    y = (*on_the_stack)({Of({5})})[0];
    y->Backward(nullptr, true);
    EXPECT_EQ(calls, 2);
    on_the_stack.reset();
    y->Backward();
    EXPECT_EQ(calls, 2);
}

// ---- Passes and handles ---------------------------------------------------------------------------------------------

TEST(ModulePostAccumulate, HandlesAndRegistrationDuringAPass) {
    auto module = std::make_shared<Affine>();
    Log log;
    const auto pass = [&] { (*module)({Of({5})})[0]->Backward(); };
    auto first = module->RegisterPostAccumulateGradHook([&](nn::Module *) { log.push_back("first"); });
    auto once = module->RegisterPostAccumulateGradHook([&](nn::Module *) { log.push_back("once"); },
                                                       {.prepend = true, .max_calls = 1});
    pass();
    EXPECT_EQ(log, (Log{"once", "first"}));
    EXPECT_FALSE(once->IsActive());
    first->Disable();
    pass();
    first->Enable();
    log.clear();
    std::shared_ptr<HookHandle> late;
    auto registers = module->parameter("v")->RegisterHook([&](const TensorPtr &) {
        if (late == nullptr) {
            late = module->RegisterPostAccumulateGradHook([&](nn::Module *) { log.push_back("late"); });
        }
    });
    pass();
    EXPECT_EQ(log, (Log{"first"}));
    pass();
    EXPECT_EQ(log, (Log{"first", "first", "late"}));
    first->Remove();
    late->Remove();
    pass();
    EXPECT_EQ(log.size(), 3U);
    auto again = module->RegisterPostAccumulateGradHook([&](nn::Module *) { log.push_back("again"); });
    pass();
    EXPECT_EQ(log.back(), "again");
    EXPECT_EQ(again->Calls(), 1U);
}

TEST(ModulePostAccumulate, PassInsideOfAPass) {
    auto module = std::make_shared<Affine>();
    std::vector<std::vector<Floats>> calls;
    module->RegisterPostAccumulateGradHook(Note(&calls));
    const auto other = (*module)({Of({7})})[0];
    bool inside = false;
    // v comes first in both passes: the other pass lies between v and w of this one.
    module->parameter("w")->RegisterHook([&](const TensorPtr &) {
        if (!std::exchange(inside, true)) {
            other->Backward();
        }
    });
    (*module)({Of({5})})[0]->Backward();
    EXPECT_EQ(calls, (std::vector<std::vector<Floats>>{{{7}, {2}}, {{12}, {2}}}));
}

TEST(ModulePostAccumulate, ExceptionsNameTheHookAndDoNotPoisonTheNextPass) {
    auto net = std::make_shared<nn::Sequential>(std::vector<std::shared_ptr<nn::Module>>{std::make_shared<Affine>()});
    bool fail = true;
    int calls = 0;
    net->module("0")->RegisterPostAccumulateGradHook(
        [&](nn::Module *) {
            if (std::exchange(fail, false)) {
                throw std::runtime_error("boom");
            }
            ++calls;
        },
        {.name = "step"});
    const auto text = Thrown<std::runtime_error>([&] { (*net)({Of({5})})[0]->Backward(); });
    EXPECT_TRUE(Contains(text, "boom [post-accumulate hook 'step' of 0 (Affine)]")) << text;
    auto stop = net->module("0")->parameter("w")->RegisterHook([](const TensorPtr &) { throw 1; });
    EXPECT_THROW((*net)({Of({5})})[0]->Backward(), int);  // v is through, w isn't
    EXPECT_EQ(calls, 0);
    stop->Remove();
    (net->module("0")->parameter("w") * 2)->Backward();
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(Thrown<ValueError>([&] { net->module("0")->RegisterPostAccumulateGradHook(nullptr); }),
              "0 (Affine): expected a post-accumulate hook to call, got an empty function");
}

TEST(ModulePostAccumulate, ThreadsShareAModule) {
    auto inner = std::make_shared<Affine>();
    auto net = std::make_shared<nn::Sequential>(std::vector<std::shared_ptr<nn::Module>>{inner});
    constexpr int kPasses = 200;
    std::atomic<int> of_net{0}, of_inner{0};
    net->RegisterPostAccumulateGradHook([&](nn::Module *) { ++of_net; });
    inner->RegisterPostAccumulateGradHook([&](nn::Module *) { ++of_inner; });
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t) {
        threads.emplace_back([&] {
            for (int i = 0; i < kPasses; ++i) {
                (*net)({Of({1})})[0]->Backward();
                if (i % 10 == 0) {
                    net->RegisterPostAccumulateGradHook([](nn::Module *) {})->Remove();
                }
            }
        });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    EXPECT_EQ(of_net, 2 * kPasses);
    EXPECT_EQ(of_inner, 2 * kPasses);
    EXPECT_EQ(Values(inner->parameter("v")->grad()), (Floats{2 * kPasses}));
}

}  // namespace
}  // namespace infini_train
