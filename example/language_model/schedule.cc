#include "example/language_model/schedule.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "example/common/flags.h"

namespace infini_train::example {
namespace {

using lr_schedulers::ConstantLR;
using lr_schedulers::ExponentialLR;
using lr_schedulers::LinearLR;
using lr_schedulers::OneCycleLR;
using lr_schedulers::SequentialLR;
using lr_schedulers::StepLR;
using lr_schedulers::WarmupCosineLR;

// What comes after the warm-up, its steps counted from there.
std::shared_ptr<LRScheduler> AfterWarmup(const ScheduleOptions &options, const std::shared_ptr<Optimizer> &optimizer) {
    if (options.kind == "linear") {
        const double end = options.learning_rate > 0 ? options.min_lr / options.learning_rate : 1;
        return std::make_shared<LinearLR>(optimizer, 1.0, end,
                                          std::max<int64_t>(options.decay_steps - options.warmup_steps, 1));
    }
    if (options.kind == "step") {
        return std::make_shared<StepLR>(optimizer, options.step_size, options.gamma);
    }
    if (options.kind == "exponential") {
        return std::make_shared<ExponentialLR>(optimizer,
                                               std::pow(options.gamma, 1.0 / static_cast<double>(options.step_size)));
    }
    return std::make_shared<ConstantLR>(optimizer, 1.0, 0);
}

std::shared_ptr<LRScheduler> MakeByStep(const ScheduleOptions &options, const std::shared_ptr<Optimizer> &optimizer) {
    if (options.kind == "cosine") {
        return std::make_shared<WarmupCosineLR>(optimizer, options.warmup_steps, options.decay_steps, options.min_lr);
    }
    if (options.kind == "one_cycle") {
        return std::make_shared<OneCycleLR>(optimizer, options.learning_rate, options.decay_steps);
    }
    std::shared_ptr<LRScheduler> after = AfterWarmup(options, optimizer);
    if (options.warmup_steps == 0) {
        return after;
    }
    // As WarmupCosineLR's: the first step isn't lost at a rate of 0.
    auto warmup = std::make_shared<LinearLR>(optimizer, 1.0 / static_cast<double>(options.warmup_steps + 1), 1.0,
                                             options.warmup_steps);
    return std::make_shared<SequentialLR>(
        optimizer, std::vector<std::shared_ptr<LRScheduler>>{std::move(warmup), std::move(after)},
        std::vector<int64_t>{options.warmup_steps});
}

}  // namespace

Schedule::Schedule(const ScheduleOptions &options, const std::shared_ptr<Optimizer> &optimizer) : options_(options) {
    if (options.kind == "plateau") {
        if (options.warmup_steps > 0) {
            throw UsageError("--lr_schedule=plateau has no warm-up: give --warmup_iters=0");
        }
        by_loss_ = std::make_shared<lr_schedulers::ReduceLROnPlateau>(
            optimizer, lr_schedulers::ReduceLROnPlateau::Options{
                           .factor = options.gamma, .patience = 2, .min_lr = {options.min_lr}});
        return;
    }
    if (options.warmup_steps > options.decay_steps) {
        throw UsageError(fmt::format("flag --warmup_iters: expected at most the {} steps of the decay, got {}",
                                     options.decay_steps, options.warmup_steps));
    }
    by_step_ = MakeByStep(options, optimizer);
}

void Schedule::AfterStep() {
    if (by_step_ != nullptr) {
        by_step_->Step();
    }
}

void Schedule::AfterValidation(double loss) {
    if (by_loss_ != nullptr) {
        by_loss_->Step(loss);
    }
}

LRSchedulerBase *Schedule::scheduler() {
    return by_step_ != nullptr ? static_cast<LRSchedulerBase *>(by_step_.get()) : by_loss_.get();
}

std::string Schedule::Describe() const {
    std::string text = fmt::format("{}, learning rate {:.4g}", options_.kind, options_.learning_rate);
    if (options_.kind == "cosine" || options_.kind == "linear") {
        text += fmt::format(" to {:.4g} at step {}", options_.min_lr, options_.decay_steps);
    }
    if (options_.warmup_steps > 0 && options_.kind != "one_cycle") {
        text += fmt::format(", warm-up {} steps", options_.warmup_steps);
    }
    return text;
}

}  // namespace infini_train::example
