#include "infini_train/include/lr_scheduler.h"

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/io/safetensors.h"
#include "infini_train/include/optimizer.h"
#include "infini_train/include/tensor.h"

#include "test/support/tensors.h"

namespace infini_train {
namespace {

using namespace lr_schedulers;
using test::Contains;
using test::Leaf;
using test::Thrown;
using Doubles = std::vector<double>;
using SharedOptimizer = std::shared_ptr<Optimizer>;
using Made = std::shared_ptr<LRScheduler>;

// The optimizer of the fixtures: groups that begin with 0.4 and 0.1.
SharedOptimizer TwoGroups() {
    const std::vector<ParamGroup> groups = {{.params = {Leaf(0)}, .lr = 0.4}, {.params = {Leaf(0)}, .lr = 0.1}};
    return std::make_shared<optimizers::SGD>(groups, 1.0);
}

struct Case {
    std::string name;
    std::function<Made(const SharedOptimizer &)> make;
};

std::vector<Case> Cases() {
    using O = const SharedOptimizer &;
    return {
        {"constant", [](O o) { return std::make_shared<ConstantLR>(o, 0.25, 4); }},
        {"linear", [](O o) { return std::make_shared<LinearLR>(o, 0.1, 0.8, 7); }},
        {"step", [](O o) { return std::make_shared<StepLR>(o, 5, 0.3); }},
        {"multi_step",
         [](O o) {
             return std::make_shared<MultiStepLR>(o, std::vector<int64_t>{3, 7, 7, 15}, 0.5);
         }},
        {"exponential", [](O o) { return std::make_shared<ExponentialLR>(o, 0.9); }},
        {"cosine", [](O o) { return std::make_shared<CosineAnnealingLR>(o, 10, 0.01); }},
        {"warmup_cosine", [](O o) { return std::make_shared<WarmupCosineLR>(o, 5, 20, 0.02); }},
        {"one_cycle", [](O o) { return std::make_shared<OneCycleLR>(o, 0.5, 24); }},
        {"one_cycle_linear",
         [](O o) {
             return std::make_shared<OneCycleLR>(o, Doubles{0.5, 2.0}, 24, 0.4, OneCycleLR::Anneal::kLinear, 10, 100);
         }},
        {"lambda",
         [](O o) {
             return std::make_shared<LambdaLR>(
                 o, std::vector<LambdaLR::Lambda>{[](int64_t step) { return 1 / (static_cast<double>(step) + 1); },
                                                  [](int64_t step) { return std::pow(0.95, step); }});
         }},
        {"sequential",
         [](O o) {
             return std::make_shared<SequentialLR>(o,
                                                   std::vector<Made>{std::make_shared<LinearLR>(o, 0.1, 1.0, 4),
                                                                     std::make_shared<CosineAnnealingLR>(o, 8, 0.01),
                                                                     std::make_shared<ExponentialLR>(o, 0.5)},
                                                   std::vector<int64_t>{4, 12});
         }},
        {"chained",
         [](O o) {
             return std::make_shared<ChainedScheduler>(std::vector<Made>{std::make_shared<LinearLR>(o, 0.2, 1.0, 5),
                                                                         std::make_shared<StepLR>(o, 6, 0.5),
                                                                         std::make_shared<ExponentialLR>(o, 0.97)});
         }},
    };
}

const std::map<std::string, TensorPtr> &Fixtures() {
    static const auto fixtures = io::LoadSafetensors("test/fixtures/training.safetensors");
    return fixtures;
}

void ExpectRates(const Optimizer &optimizer, const Doubles &expected, size_t step, const std::string &name) {
    for (size_t group = 0; group < 2; ++group) {
        const double value = expected[2 * step + group];
        EXPECT_NEAR(optimizer.learning_rate(group), value, 1e-12 * value) << name << " step " << step;
    }
}

TEST(LRScheduler, RatesArePyTorchs) {
    for (const Case &c : Cases()) {
        const auto expected = Fixtures().at("lr/" + c.name)->ToVector<double>();
        const SharedOptimizer optimizer = TwoGroups();
        const Made scheduler = c.make(optimizer);
        for (size_t step = 0; step < expected.size() / 2; ++step) {
            ExpectRates(*optimizer, expected, step, c.name);
            EXPECT_EQ(scheduler->step(), static_cast<int64_t>(step));
            scheduler->Step();
        }
        EXPECT_EQ(scheduler->last_lr(), Doubles({optimizer->learning_rate(0), optimizer->learning_rate(1)}));
    }
}

TEST(LRScheduler, ResumesBitForBit) {
    for (const Case &c : Cases()) {
        const SharedOptimizer whole = TwoGroups();
        const Made first = c.make(whole);
        for (int step = 0; step < 6; ++step) {
            first->Step();
        }
        // A fresh process: first the optimizer's state, then a scheduler, which would begin with that, then its own.
        const SharedOptimizer resumed = TwoGroups();
        resumed->LoadStateDict(whole->StateDict());
        const Made second = c.make(resumed);
        second->LoadStateDict(first->StateDict());
        EXPECT_EQ(second->step(), 6);
        for (int step = 6; step < 20; ++step) {
            for (size_t group = 0; group < 2; ++group) {
                EXPECT_EQ(resumed->learning_rate(group), whole->learning_rate(group)) << c.name << " step " << step;
            }
            first->Step();
            second->Step();
        }
    }
}

struct PlateauCase {
    std::string name;
    ReduceLROnPlateau::Options options;
};

std::vector<PlateauCase> PlateauCases() {
    return {{"plateau", {.factor = 0.5, .patience = 1}},
            {"plateau_abs",
             {.factor = 0.1,
              .patience = 0,
              .threshold = 0.05,
              .relative_threshold = false,
              .cooldown = 2,
              .min_lr = {0.01, 0.002}}},
            {"plateau_max", {.maximize = true, .factor = 0.3, .patience = 2, .threshold = 0.01, .eps = 0.02}}};
}

TEST(LRScheduler, PlateausArePyTorchsAndResume) {
    const auto metrics = Fixtures().at("metrics")->ToVector<double>();
    for (const PlateauCase &c : PlateauCases()) {
        const auto expected = Fixtures().at("lr/" + c.name)->ToVector<double>();
        for (size_t saved = 0; saved < metrics.size(); saved += 3) {
            SharedOptimizer optimizer = TwoGroups();
            auto scheduler = std::make_unique<ReduceLROnPlateau>(optimizer, c.options);
            for (size_t step = 0; step < metrics.size(); ++step) {
                if (step == saved) {
                    const auto state = scheduler->StateDict();
                    optimizer = TwoGroups();
                    scheduler = std::make_unique<ReduceLROnPlateau>(optimizer);
                    scheduler->LoadStateDict(state);
                }
                ExpectRates(*optimizer, expected, step, c.name);
                scheduler->Step(metrics[step]);
            }
        }
    }
}

// By hand: PyTorch divides by zero at some of these.
TEST(LRScheduler, OneCycleAtTheEdges) {
    const auto rates = [](int64_t total_steps, double pct_start) {
        const SharedOptimizer optimizer = TwoGroups();
        OneCycleLR scheduler(optimizer, 1.0, total_steps, pct_start, OneCycleLR::Anneal::kLinear, 4, 5);
        Doubles seen;
        for (int step = 0; step < 4; ++step) {
            seen.push_back(optimizer->learning_rate());
            scheduler.Step();
        }
        return seen;
    };
    EXPECT_EQ(rates(1, 0.3), Doubles({0.05, 0.05, 0.05, 0.05}));
    EXPECT_EQ(rates(3, 1), Doubles({0.25, 0.625, 1, 0.05}));
    EXPECT_EQ(rates(2, 0.5), Doubles({1, 0.05, 0.05, 0.05}));
    EXPECT_NEAR(rates(2, 0)[0], 0.525, 1e-15);
}

TEST(LRScheduler, AGroupAddedLaterBeginsWithItsOwnRate) {
    const SharedOptimizer optimizer = TwoGroups();
    ExponentialLR scheduler(optimizer, 0.5);
    scheduler.Step();
    optimizer->AddParamGroup({.params = {Leaf(0)}, .lr = 8});
    scheduler.Step();
    EXPECT_EQ(scheduler.last_lr(), Doubles({0.1, 0.025, 2}));
}

TEST(LRScheduler, StateHasDocumentedNamesAndSettings) {
    const SharedOptimizer optimizer = TwoGroups();
    StepLR scheduler(optimizer, 5, 0.3);
    scheduler.Step();
    auto state = scheduler.StateDict();
    std::vector<std::string> names;
    for (const auto &[name, tensor] : state) {
        names.push_back(name);
    }
    EXPECT_EQ(names, std::vector<std::string>({"base_lr", "gamma", "lr", "step", "step_size"}));
    EXPECT_EQ(state.at("step")->Item<int64_t>(), 1);
    EXPECT_EQ(state.at("base_lr")->ToVector<double>(), Doubles({0.4, 0.1}));
    StepLR other(TwoGroups(), 9, 0.9);
    other.LoadStateDict(state);
    EXPECT_EQ(other.StateDict().at("step_size")->Item<int64_t>(), 5);
    // Those of schedulers inside others stand behind their number.
    const Made chained = Cases().back().make(optimizer);
    EXPECT_EQ(chained->StateDict().at("1.step_size")->Item<int64_t>(), 6);
}

TEST(LRScheduler, StateThatDoesntFitChangesNothing) {
    const SharedOptimizer optimizer = TwoGroups();
    StepLR scheduler(optimizer, 2, 0.5);
    const auto good = scheduler.StateDict();
    const auto message = [&](const std::string &name, const TensorPtr &value) {
        auto state = good;
        state["gamma"] = Tensor::FromScalar(0.25, DataType::kFLOAT64);
        state[name] = value;
        std::string text = Thrown<ValueError>([&] { scheduler.LoadStateDict(state); });
        EXPECT_EQ(scheduler.StateDict().at("gamma")->Item<double>(), 0.5);
        EXPECT_EQ(optimizer->learning_rate(), 0.4);
        return text;
    };
    EXPECT_EQ(message("step", nullptr), "StepLR: the state doesn't fit:\n  step is missing");
    EXPECT_TRUE(Contains(message("step", Tensor::FromScalar(-1, DataType::kINT64)), "step is -1"));
    EXPECT_TRUE(Contains(message("t_max", Tensor::FromScalar(1)), "t_max is unexpected"));
    EXPECT_TRUE(Contains(message("lr", Tensor::FromVector<double>({1})), "expected 2 rates as lr, one a group, got 1"));
    EXPECT_TRUE(Contains(message("base_lr", Tensor::FromVector<double>({1, -1})), "expected rates >= 0 as base_lr"));
    EXPECT_TRUE(Contains(message("step_size", Tensor::FromScalar(int64_t{0}, DataType::kINT64)), "a step_size >= 1"));
    EXPECT_TRUE(Contains(message("step_size", Tensor::FromScalar(2.5)), "expected int64"));
}

TEST(LRScheduler, RejectsWhatMakesNoSense) {
    const SharedOptimizer o = TwoGroups();
    EXPECT_EQ(Thrown<ValueError>([] { StepLR(nullptr, 2); }), "StepLR: expected an optimizer, got null");
    EXPECT_EQ(Thrown<ValueError>([&] { StepLR(o, 0); }), "StepLR: expected a step_size >= 1, got 0");
    EXPECT_THROW(ConstantLR(o, 1.5), ValueError);
    EXPECT_THROW(LinearLR(o, 0.0), ValueError);
    EXPECT_THROW(LinearLR(o, 0.5, 2.0), ValueError);
    EXPECT_THROW(ExponentialLR(o, -0.1), ValueError);
    EXPECT_THROW(ExponentialLR(o, std::nan("")), ValueError);
    EXPECT_THROW(CosineAnnealingLR(o, 0), ValueError);
    EXPECT_THROW(WarmupCosineLR(o, 5, 4), ValueError);
    EXPECT_THROW(OneCycleLR(o, 0.1, 0), ValueError);
    EXPECT_THROW(OneCycleLR(o, Doubles{1, 2, 3}, 5), ValueError);
    EXPECT_THROW(LambdaLR(o, LambdaLR::Lambda()), ValueError);
    EXPECT_EQ(Thrown<ValueError>([&] {
                  MultiStepLR(o, {4, 2});
              }),
              "MultiStepLR: expected milestones >= 0 in ascending order, got [4, 2]");
    const auto step = std::make_shared<StepLR>(o, 2);
    EXPECT_EQ(Thrown<ValueError>([&] {
                  SequentialLR(o, {step, step}, {1, 2});
              }),
              "SequentialLR: expected one scheduler more than the 2 milestones, got 2");
    const auto other = std::make_shared<StepLR>(TwoGroups(), 2);
    EXPECT_EQ(Thrown<ValueError>([&] {
                  ChainedScheduler({step, other});
              }),
              "ChainedScheduler: expected schedulers of one optimizer, number 1 (StepLR) has another");
    EXPECT_THROW(ChainedScheduler({}), ValueError);
    EXPECT_THROW(ReduceLROnPlateau(o, {.factor = 1.0}), ValueError);
    // A function may go wrong later: then neither rates nor step change.
    LambdaLR falling(o, [](int64_t at) { return 1.0 - static_cast<double>(at); });
    falling.Step();
    EXPECT_EQ(Thrown<ValueError>([&] { falling.Step(); }),
              "LambdaLR: expected a learning rate >= 0 for group 0, got -0.4");
    EXPECT_EQ(falling.step(), 1);
    EXPECT_EQ(o->learning_rate(), 0);
}

}  // namespace
}  // namespace infini_train
