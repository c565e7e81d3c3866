// Random hooks on random trees of modules, their functions and their tensors, against a model made of plain vectors and
// a tape of scalars. Hooks register, remove, disable and enable others and themselves, replace what they are given,
// throw, call modules and run backward passes. Set INFINI_TRAIN_HOOK_SEED to run one seed alone.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/tensor.h"
#include "infini_train/include/utils/global_module_hook_registry.h"

#include "test/hook/random_hook_model.h"
#include "test/support/modules.h"
#include "test/support/tensors.h"

namespace infini_train {
namespace {

using namespace test;  // NOLINT: the model

constexpr unsigned kSeeds = 300;
constexpr int kRounds = 20;

double Read(const TensorPtr &tensor) {
    return tensor == nullptr ? kNothing : tensor->Item<double>();
}
double Read(const TensorList &tensors) {
    return tensors.empty() ? kNothing : Read(tensors[0]);
}
TensorPtr MakeTensor(double value) {
    return Tensor::FromScalar(value, DataType::kFLOAT64, test::TestDevice());
}

class Times : public autograd::Function {
public:
    explicit Times(double factor) : Function("Times"), factor_(factor) {}
    TensorList Forward(const TensorList &inputs) override { return {inputs[0] * factor_}; }
    TensorList Backward(const TensorList &grads) override { return {grads[0] * factor_}; }

private:
    const double factor_;
};

// All modules, under the names that one of them has.
struct GlobalTarget {
    static auto &Registry() { return utils::GlobalModuleHookRegistry::Instance(); }
    template <typename F>
    auto RegisterForwardPreHook(F hook, const HookOptions &options) {
        return Registry().RegisterModuleForwardPreHook(hook, options);
    }
    template <typename F>
    auto RegisterForwardPostHook(F hook, const HookOptions &options) {
        return Registry().RegisterModuleForwardHook(hook, options);
    }
    template <typename F>
    auto RegisterBackwardPreHook(F hook, const HookOptions &options) {
        return Registry().RegisterModuleFullBackwardPreHook(hook, options);
    }
    template <typename F>
    auto RegisterBackwardPostHook(F hook, const HookOptions &options) {
        return Registry().RegisterModuleFullBackwardHook(hook, options);
    }
};

// ---- The library ----------------------------------------------------------------------------------------------------

class Library : public Side {
public:
    explicit Library(const std::vector<ModulePlan> &plans) : Side(plans), plans_(plans) {
        for (int m = 0; m < kModules; ++m) {
            leaves.push_back(MakeTensor(plans[static_cast<size_t>(m)].factor)->RequiresGrad());
            modules_.push_back(MakeModule([this, m](const TensorList &inputs) { return Body(m, inputs[0]); }));
            for (const int child : plans[static_cast<size_t>(m)].children) {
                modules_.back()->RegisterModule(std::to_string(modules_.back()->NamedChildren().size()),
                                                modules_[static_cast<size_t>(child)]);
            }
        }
    }
    ~Library() override {
        for (const auto &hook : hooks_) {
            hook.handle->Remove();
        }
    }
    Library(const Library &) = delete;
    Library &operator=(const Library &) = delete;

    TensorPtr Start(bool requires_grad) {
        for (const auto &leaf : leaves) {
            leaf->ZeroGrad();
        }
        const auto x = MakeTensor(1);
        x->set_requires_grad(requires_grad);
        passing.emplace_back(x);
        return x;
    }
    TensorPtr Call(int m, const TensorPtr &x) {
        const auto y = (*modules_[static_cast<size_t>(m)])({x})[0];
        passing.emplace_back(y);
        return y;
    }
    static double Result(const TensorPtr &output) { return Read(output); }
    static bool Tracked(const TensorPtr &output) { return output->requires_grad(); }
    static void Backward(const TensorPtr &output, bool retain) { output->Backward(nullptr, retain); }
    void HookOutput(const TensorPtr &output, const std::vector<Spec> &hooks) {
        for (const auto &spec : hooks) {
            if (spec.point == kTensor && output->grad_fn() != nullptr) {
                AddToTensor(output, spec, false, nullptr);
            }
        }
    }

    const HookHandle &handle(int hook) const { return *hooks_[static_cast<size_t>(hook)].handle; }
    bool Holds(int hook) const { return !hooks_[static_cast<size_t>(hook)].captured.expired(); }
    /// What is to be gone once this object is.
    std::vector<std::weak_ptr<void>> Everything() const {
        auto all = passing;
        all.insert(all.end(), modules_.begin(), modules_.end());
        all.insert(all.end(), leaves.begin(), leaves.end());
        for (const auto &hook : hooks_) {
            all.push_back(hook.captured);
        }
        return all;
    }

    TensorList leaves;
    std::vector<std::weak_ptr<void>> passing;  // what is to be gone after each round

private:
    using Adder = std::function<void(const Spec &)>;
    struct Hook {
        std::shared_ptr<HookHandle> handle;
        std::weak_ptr<int> captured;
        Adder beside;
    };

    // What a hook on a list of tensors answers.
    static HookResult Answer(const Reply &reply, const TensorList &given) {
        if (reply.wrong) {
            return TensorList(2);
        }
        if (reply.null) {
            return TensorList(1);
        }
        if (reply.factor == 1 || given.empty() || given[0] == nullptr) {
            return std::nullopt;
        }
        return TensorList{given[0] * reply.factor};
    }

    template <typename T>
    void AddToList(T *target, const Spec &spec, bool lasting, const Adder &beside) {
        const int hook = Number(spec, lasting);
        const auto token = std::make_shared<int>(hook);
        const auto pre = [this, token](auto *, const TensorList &given) {
            return Answer(Act(*token, Read(given), kNothing), given);
        };
        const bool forward = spec.point == kForwardPost;
        const auto post = [this, token, forward](auto *, const TensorList &ins, const TensorList &outs) {
            const TensorList &given = forward ? outs : ins;
            return Answer(Act(*token, Read(given), Read(forward ? ins : outs)), given);
        };
        const auto &options = spec.options;
        auto handle = spec.point == kForwardPre    ? target->RegisterForwardPreHook(pre, options)
                      : spec.point == kForwardPost ? target->RegisterForwardPostHook(post, options)
                      : spec.point == kBackwardPre ? target->RegisterBackwardPreHook(pre, options)
                                                   : target->RegisterBackwardPostHook(post, options);
        hooks_.push_back({std::move(handle), token, beside});
    }

    void AddToTensor(const TensorPtr &tensor, const Spec &spec, bool lasting, const Adder &beside) {
        const int hook = Number(spec, lasting);
        const auto token = std::make_shared<int>(hook);
        if (spec.point == kPostAccumulate) {
            auto handle = tensor->RegisterPostAccumulateGradHook(
                [this, token](const TensorPtr &leaf) { Act(*token, Read(leaf->grad()), kNothing); }, spec.options);
            hooks_.push_back({std::move(handle), token, beside});
            return;
        }
        auto handle = tensor->RegisterHook(
            [this, token](const TensorPtr &grad) {
                const Reply reply = Act(*token, Read(grad), kNothing);
                if (reply.wrong) {
                    return Tensor::Zeros({2}, DataType::kFLOAT64, test::TestDevice());
                }
                return reply.factor == 1 || grad == nullptr ? nullptr : grad * reply.factor;
            },
            spec.options);
        hooks_.push_back({std::move(handle), token, beside});
    }

    void Register(const Spec &spec) override {
        const auto again = [this, point = spec.point, target = spec.target](const Spec &other) {
            Spec beside = other;
            beside.point = point;
            beside.target = target;
            Register(beside);
        };
        if (spec.point >= kTensor) {
            AddToTensor(leaves[static_cast<size_t>(spec.target)], spec, true, again);
        } else if (spec.target == kGlobal) {
            GlobalTarget all;
            AddToList(&all, spec, true, again);
        } else {
            AddToList(modules_[static_cast<size_t>(spec.target)].get(), spec, true, again);
        }
    }
    void RegisterBeside(int hook, const Spec &spec) override {
        if (const Adder beside = hooks_[static_cast<size_t>(hook)].beside) {
            beside(spec);
        }
    }
    void AddToFunction(const std::weak_ptr<Times> &weak, const Spec &spec) {
        const auto function = weak.lock();
        ASSERT_NE(function, nullptr);
        AddToList(function.get(), spec, false, [this, weak](const Spec &other) { AddToFunction(weak, other); });
    }

    void Change(int hook, Action::Kind kind) override {
        const auto handle = hooks_[static_cast<size_t>(hook)].handle;
        if (kind == Action::kRemove) {
            handle->Remove();
        } else if (kind == Action::kDisable) {
            handle->Disable();
        } else {
            handle->Enable();
        }
    }

    TensorList Body(int m, const TensorPtr &x) {
        const ModulePlan &plan = plans_[static_cast<size_t>(m)];
        if (plan.kind == ModulePlan::kMultiply) {
            return {x * leaves[static_cast<size_t>(m)]};
        }
        if (plan.kind == ModulePlan::kFunction) {
            const auto function = std::make_shared<Times>(plan.factor);
            passing.emplace_back(function);
            for (const auto &spec : plan.hooks) {
                if (spec.point < kTensor) {
                    AddToFunction(function, spec);
                }
            }
            const auto y = function->Apply({x})[0];
            HookOutput(y, plan.hooks);
            return {y};
        }
        TensorPtr y = x;
        for (size_t i = 0; i < plan.children.size(); ++i) {
            const bool sequence = plan.kind == ModulePlan::kSequence;
            const auto next = Call(plan.children[i], sequence ? y : x);
            y = sequence || i == 0 ? next : y + next;
        }
        return {y};
    }

    void Enter(int module, bool backward) override {
        const auto x = MakeTensor(1)->RequiresGrad();
        passing.emplace_back(x);
        const bool recording = autograd::GradMode::IsEnabled();
        const auto restore = std::shared_ptr<void>(nullptr, [&](void *) { autograd::GradMode::SetEnabled(recording); });
        autograd::GradMode::SetEnabled(recording || backward);
        const auto y = Call(module, x);
        if (backward && y->requires_grad()) {
            y->Backward();
        }
    }

    const std::vector<ModulePlan> plans_;
    std::vector<std::shared_ptr<Lambda>> modules_;
    std::vector<Hook> hooks_;
};

// ---- The test -------------------------------------------------------------------------------------------------------

struct Outcome {
    std::string error;
    double value = kNothing;
};

// Calls the root module and runs backward passes; what was thrown, if anything, and what came out.
template <typename S>
Outcome Play(S *side, const Round &round) {
    Outcome outcome;
    try {
        side->Begin(round);
        const auto y = side->Call(kModules - 1, side->Start(round.requires_grad));
        outcome.value = side->Result(y);
        side->HookOutput(y, round.output_hooks);
        for (int pass = 0; side->Tracked(y) && pass < round.backwards; ++pass) {
            side->Backward(y, pass + 1 < round.backwards);
        }
    } catch (const AutogradError &error) {
        outcome.error = std::string(error.what()).find("expected") != std::string::npos ? "wrong" : error.what();
    } catch (const std::exception &error) {
        outcome.error = std::string(error.what()).substr(0, std::string(error.what()).find(" ["));
    }
    return outcome;
}

void Compare(const Model &model, const Library &library) {
    EXPECT_EQ(library.log, model.log);
    EXPECT_TRUE(autograd::GradMode::IsEnabled());
    for (size_t i = 0; i < library.leaves.size(); ++i) {
        EXPECT_EQ(Read(library.leaves[i]->grad()), model.grads[i]) << "leaf " << i;
    }
    for (int hook = 0; hook < static_cast<int>(model.size()); ++hook) {
        EXPECT_EQ(library.handle(hook).Calls(), model.Calls(hook)) << "hook " << hook;
        EXPECT_EQ(library.handle(hook).IsActive(), model.Lasts(hook) && model.Active(hook)) << "hook " << hook;
        EXPECT_EQ(library.Holds(hook), model.Lasts(hook) && !model.Removed(hook)) << "hook " << hook;
    }
    EXPECT_TRUE(
        std::all_of(library.passing.begin(), library.passing.end(), [](const auto &weak) { return weak.expired(); }));
}

// Plays one seed's rounds on both sides; how many hooks fired.
size_t PlaySeed(unsigned seed) {
    Planner planner(seed);
    const auto plans = planner.MakeModules();
    size_t fired = 0;
    std::vector<std::weak_ptr<void>> everything;
    {
        Model model(plans);
        Library library(plans);
        for (int n = 0; n < kRounds && !testing::Test::HasFailure(); ++n) {
            SCOPED_TRACE("INFINI_TRAIN_HOOK_SEED=" + std::to_string(seed) + ", round " + std::to_string(n));
            const Round round = planner.MakeRound();
            const Outcome expected = Play(&model, round);
            const Outcome outcome = Play(&library, round);
            EXPECT_EQ(outcome.error, expected.error);
            EXPECT_EQ(outcome.value, expected.value);
            Compare(model, library);
            fired += library.log.size();
        }
        everything = library.Everything();
    }
    SCOPED_TRACE("INFINI_TRAIN_HOOK_SEED=" + std::to_string(seed) + ", at the end");
    EXPECT_TRUE(std::all_of(everything.begin(), everything.end(), [](const auto &weak) { return weak.expired(); }));
    return fired;
}

TEST(RandomHooks, FireAsTheModelSays) {
    const char *only = std::getenv("INFINI_TRAIN_HOOK_SEED");
    const unsigned first = only != nullptr ? static_cast<unsigned>(std::strtoul(only, nullptr, 10)) : 0;
    const unsigned last = only != nullptr ? first : kSeeds - 1;
    size_t fired = 0;
    for (unsigned seed = first; seed <= last && !HasFailure(); ++seed) {
        fired += PlaySeed(seed);
    }
    RecordProperty("fired", static_cast<int>(fired));
    EXPECT_TRUE(only != nullptr || fired > size_t{kSeeds} * kRounds);
}

// A post hook that throws, having taken itself off or disabled itself: those before it don't run again, those after it
// that are always called do run.
TEST(RandomHooks, AlwaysCalledHooksRunOnceThoughTheThrowerIsGone) {
    for (const bool removes : {true, false}) {
        auto module = MakeModule([](const TensorList &inputs) { return inputs; });
        std::string order;
        const auto note = [&](char name) {
            return [&order, name](nn::Module *, const TensorList &, const TensorList &) { order += name; };
        };
        std::shared_ptr<HookHandle> thrower;
        module->RegisterForwardPostHook(note('a'), {.always_call = true});
        thrower = module->RegisterForwardPostHook([&](nn::Module *, const TensorList &, const TensorList &) {
            removes ? thrower->Remove() : thrower->Disable();
            throw ValueError("thrown");
        });
        module->RegisterForwardPostHook(note('b'));
        module->RegisterForwardPostHook(note('c'), {.always_call = true});
        EXPECT_THROW((*module)({MakeTensor(1)}), ValueError);
        EXPECT_EQ(order, "ac") << (removes ? "removed" : "disabled");
        (*module)({MakeTensor(1)});
        EXPECT_EQ(order, "acabc");
    }
}

// Hooks that hold what they are registered on weakly, and a graph that is never run.
TEST(RandomHooks, WeakHoldsLeakNothing) {
    std::vector<std::weak_ptr<void>> everything;
    const auto hold = [&](const auto &thing) {
        auto token = std::make_shared<std::pair<int, std::weak_ptr<void>>>(0, thing);
        everything.emplace_back(thing);
        everything.emplace_back(token);
        return token;
    };
    for (const bool runs : {true, false}) {
        auto module = MakeModule([](const TensorList &inputs) { return inputs; });
        auto function = std::make_shared<Times>(3);
        auto leaf = MakeTensor(2)->RequiresGrad();
        const auto pre = [](auto token) { return [token](auto *, const TensorList &) { ++token->first; }; };
        const auto post = [](auto token) {
            return [token](auto *, const TensorList &, const TensorList &) { ++token->first; };
        };
        const auto on_list = [&](const auto &thing) {
            thing->RegisterForwardPreHook(pre(hold(thing)));
            thing->RegisterForwardPostHook(post(hold(thing)));
            thing->RegisterBackwardPreHook(pre(hold(thing)));
            thing->RegisterBackwardPostHook(post(hold(thing)));
        };
        on_list(module);
        on_list(function);
        auto y = (*module)(function->Apply({leaf}))[0];
        for (const auto &tensor : {leaf, y}) {
            tensor->RegisterHook([token = hold(tensor)](const TensorPtr &) { ++token->first; });
        }
        leaf->RegisterPostAccumulateGradHook([token = hold(leaf)](const TensorPtr &) { ++token->first; });
        if (runs) {
            y->Backward(nullptr, true);
            y->Backward();
            EXPECT_EQ(Read(leaf->grad()), 6);
        }
    }
    EXPECT_TRUE(std::all_of(everything.begin(), everything.end(), [](const auto &weak) { return weak.expired(); }));
}

}  // namespace
}  // namespace infini_train
