#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "infini_train/include/common/hook.h"

/// What happens in random_hook_test.cc: the plan of a seed, by which the library and a model of it are driven in step.
namespace infini_train::test {

constexpr int kModules = 5;
constexpr int kGlobal = kModules;    // the target that stands for all modules
constexpr double kNothing = 1.0e99;  // a gradient or an output that isn't there

// ---- What is to happen: data that the library and the model are both driven by --------------------------------------

enum Point { kForwardPre, kForwardPost, kBackwardPre, kBackwardPost, kTensor, kPostAccumulate };

struct Spec;

struct Action {
    enum Kind {
        kRemove,
        kDisable,
        kEnable,
        kRegister,
        kRegisterBeside,
        kCall,
        kBackward,
        kThrow,
        kScale,
        kNull,
        kWrong
    };
    Kind kind;
    int number = 0;        // of a hook, -1 for the acting one; of a module
    double factor = 1;     // of kScale
    bool catches = false;  // what kCall and kBackward throw
    std::shared_ptr<const Spec> spec = nullptr;
};

struct Spec {
    Point point;
    int target;
    HookOptions options;
    std::vector<Action> actions;
};

struct ModulePlan {
    enum Kind { kMultiply, kFunction, kIdentity, kSequence, kSum };
    Kind kind;
    double factor;
    std::vector<int> children;
    std::vector<Spec> hooks;  // of the function and its output, registered in each Forward
};

struct Round {
    std::vector<Action> changes;
    bool requires_grad;
    std::vector<Spec> output_hooks;
    int backwards;
};

class Planner {
public:
    explicit Planner(unsigned seed) : random_(seed) {}

    int Below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
    bool OneIn(int n) { return Below(n) == 0; }
    double Factor() { return std::vector<double>{2, -1, 0.5, -2}[static_cast<size_t>(Below(4))]; }

    Action MakeAction(Point point, int nesting) {
        const int number = OneIn(3) ? -1 : Below(1000);
        const int roll = Below(20);
        if (roll < 4) {
            return {.kind = Action::kRemove, .number = number};
        }
        if (roll < 8) {
            return {.kind = roll < 6 ? Action::kDisable : Action::kEnable, .number = number};
        }
        if (roll < 11 && nesting < 2) {
            const bool beside = roll == 10;
            return {
                .kind = beside ? Action::kRegisterBeside : Action::kRegister,
                .spec = std::make_shared<Spec>(MakeSpec(beside ? point : static_cast<Point>(Below(6)), nesting + 1))};
        }
        if (roll < 13) {
            return {
                .kind = roll == 11 ? Action::kCall : Action::kBackward, .number = Below(kModules), .catches = OneIn(2)};
        }
        if (roll == 13) {
            return {.kind = Action::kThrow};
        }
        if (roll == 14 && (point == kBackwardPre || point == kBackwardPost)) {
            return {.kind = Action::kNull};
        }
        return {.kind = OneIn(12) ? Action::kWrong : Action::kScale, .factor = Factor()};
    }

    Spec MakeSpec(Point point, int nesting = 0) {
        Spec spec{point, Below(point < kTensor ? kModules + 1 : kModules), {}, {}};
        spec.options.prepend = OneIn(4);
        spec.options.always_call = OneIn(3);
        spec.options.enabled = !OneIn(8);
        spec.options.max_calls = OneIn(4) ? 1 + static_cast<uint64_t>(Below(3)) : 0;
        for (int n = OneIn(2) ? 0 : 1 + Below(2); n > 0; --n) {
            spec.actions.push_back(MakeAction(point, nesting));
        }
        return spec;
    }

    std::vector<ModulePlan> MakeModules() {
        std::vector<ModulePlan> modules;
        for (int m = 0; m < kModules; ++m) {
            ModulePlan plan{static_cast<ModulePlan::Kind>(Below(m == 0 ? 3 : 5)), Factor(), {}, {}};
            if (m == kModules - 1) {
                plan.kind = OneIn(2) ? ModulePlan::kSequence : ModulePlan::kSum;
            }
            if (plan.kind == ModulePlan::kSequence || plan.kind == ModulePlan::kSum) {
                for (int n = 1 + Below(3); n > 0; --n) {
                    plan.children.push_back(Below(m));
                }
            } else if (plan.kind == ModulePlan::kFunction) {
                for (int n = Below(4); n > 0; --n) {
                    plan.hooks.push_back(MakeSpec(static_cast<Point>(Below(5))));
                }
            }
            modules.push_back(std::move(plan));
        }
        return modules;
    }

    Round MakeRound() {
        Round round{{}, !OneIn(5), {}, Below(3)};
        for (int n = Below(5); n > 0; --n) {
            Action change{.kind = Action::kRegister};
            if (OneIn(3)) {
                change = {.kind = static_cast<Action::Kind>(Below(3)), .number = Below(1000)};
            } else {
                change.spec = std::make_shared<Spec>(MakeSpec(static_cast<Point>(Below(6))));
            }
            round.changes.push_back(change);
        }
        if (OneIn(3)) {
            round.output_hooks.push_back(MakeSpec(kTensor));
        }
        return round;
    }

private:
    std::mt19937 random_;
};

// ---- What the library and the model share: the hooks' scripts, and the log ------------------------------------------

class Side {
public:
    using Event = std::tuple<int, double, double>;  // a hook's number and what it saw; -1: an exception was caught

    explicit Side(const std::vector<ModulePlan> &modules) : modules_(modules) {}
    virtual ~Side() = default;

    void Begin(const Round &round) {
        log.clear();
        budget_ = 6;
        for (const auto &change : round.changes) {
            Do(change, -1, nullptr);
        }
    }

    std::vector<Event> log;

protected:
    struct Reply {
        double factor = 1;
        bool null = false, wrong = false;
    };

    virtual void Change(int hook, Action::Kind kind) = 0;
    virtual void Register(const Spec &spec) = 0;
    virtual void RegisterBeside(int hook, const Spec &spec) = 0;
    virtual void Enter(int module, bool backward) = 0;

    // Gives a hook its number; the next registration anywhere gets the next one.
    int Number(const Spec &spec, bool lasting) {
        specs_.push_back(std::make_shared<Spec>(spec));
        const int number = static_cast<int>(specs_.size()) - 1;
        if (lasting) {
            lasting_.push_back(number);
        }
        return number;
    }

    Reply Act(int hook, double first, double second) {
        log.emplace_back(hook, first, second);
        const auto spec = specs_[static_cast<size_t>(hook)];
        Reply reply;
        for (const auto &action : spec->actions) {
            Do(action, hook, &reply);
        }
        return reply;
    }

    const std::vector<ModulePlan> modules_;
    std::vector<std::shared_ptr<const Spec>> specs_;
    std::vector<int> lasting_;  // the hooks of what outlives a round

private:
    int Pick(int number, int self) const {
        if (number < 0 || lasting_.empty()) {
            return self;
        }
        const auto half = static_cast<size_t>(number / 2);
        return number % 2 == 0 ? lasting_[half % lasting_.size()]
                               : static_cast<int>(specs_.size() - 1 - half % std::min<size_t>(specs_.size(), 8));
    }

    void Do(const Action &action, int self, Reply *reply) {
        if (action.kind <= Action::kEnable) {
            if (const int hook = Pick(action.number, self); hook >= 0) {
                Change(hook, action.kind);
            }
        } else if (action.kind == Action::kRegister) {
            Register(*action.spec);
        } else if (action.kind == Action::kRegisterBeside) {
            RegisterBeside(self, *action.spec);
        } else if (action.kind == Action::kCall || action.kind == Action::kBackward) {
            Reenter(action);
        } else if (action.kind == Action::kThrow) {
            throw std::runtime_error("boom " + std::to_string(self));
        } else {
            reply->factor *= action.kind == Action::kScale ? action.factor : 1;
            reply->null |= action.kind == Action::kNull;
            reply->wrong |= action.kind == Action::kWrong;
        }
    }

    void Reenter(const Action &action) {
        if (depth_ == 2 || budget_ == 0) {
            return;
        }
        --budget_;
        ++depth_;
        const auto leave = std::shared_ptr<void>(nullptr, [this](void *) { --depth_; });
        if (!action.catches) {
            Enter(action.number, action.kind == Action::kBackward);
            return;
        }
        try {
            Enter(action.number, action.kind == Action::kBackward);
        } catch (const std::exception &) {
            log.emplace_back(-1, 0, 0);
        }
    }

    int budget_ = 0, depth_ = 0;
};

}  // namespace infini_train::test
