// Learning rates as functions of the step.

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "infini_train/include/common/error.h"
#include "infini_train/include/lr_scheduler.h"
#include "infini_train/include/optimizer.h"

#include "infini_train/src/common/format.h"

namespace infini_train::lr_schedulers {
namespace {

void Require(bool fits, const LRSchedulerBase &scheduler, const char *expected, auto value) {
    if (!fits) {
        Throw<ValueError>("{}: expected {}, got {}", scheduler.type(), expected, value);
    }
}

/// Half a cosine from 1 at 0 to 0 at 1.
double HalfCosine(double progress) {
    return (1 + std::cos(std::numbers::pi * progress)) / 2;
}

/// How many of the milestones are reached.
int64_t Reached(const std::vector<int64_t> &milestones, int64_t step) {
    return std::upper_bound(milestones.begin(), milestones.end(), step) - milestones.begin();
}

void RequireAscending(const std::vector<int64_t> &milestones, const LRSchedulerBase &scheduler) {
    if (!std::is_sorted(milestones.begin(), milestones.end()) || (!milestones.empty() && milestones[0] < 0)) {
        Throw<ValueError>("{}: expected milestones >= 0 in ascending order, got [{}]", scheduler.type(),
                          fmt::join(milestones, ", "));
    }
}

void RequireSchedulers(const std::vector<std::shared_ptr<LRScheduler>> &schedulers, const LRSchedulerBase &owner) {
    for (size_t i = 0; i < schedulers.size(); ++i) {
        if (schedulers[i] == nullptr) {
            Throw<ValueError>("{}: scheduler {} is null", owner.type(), i);
        }
        if (schedulers[i]->optimizer() != owner.optimizer()) {
            Throw<ValueError>("{}: expected schedulers of one optimizer, number {} ({}) has another", owner.type(), i,
                              schedulers[i]->type());
        }
    }
}

}  // namespace

ConstantLR::ConstantLR(std::shared_ptr<Optimizer> optimizer, double factor, int64_t total_iters)
    : LRScheduler("ConstantLR", std::move(optimizer)), factor_(factor), total_iters_(total_iters) {
    AddOption("factor", &factor_);
    AddOption("total_iters", &total_iters_);
    Start();
}

void ConstantLR::CheckOptions() const {
    Require(factor_ >= 0 && factor_ <= 1, *this, "a factor in [0, 1]", factor_);
    Require(total_iters_ >= 0, *this, "total_iters >= 0", total_iters_);
}

double ConstantLR::At(int64_t step, double base_lr, size_t /*group*/) const {
    return step < total_iters_ ? base_lr * factor_ : base_lr;
}

LinearLR::LinearLR(std::shared_ptr<Optimizer> optimizer, double start_factor, double end_factor, int64_t total_iters)
    : LRScheduler("LinearLR", std::move(optimizer)),
      start_factor_(start_factor),
      end_factor_(end_factor),
      total_iters_(total_iters) {
    AddOption("start_factor", &start_factor_);
    AddOption("end_factor", &end_factor_);
    AddOption("total_iters", &total_iters_);
    Start();
}

void LinearLR::CheckOptions() const {
    Require(start_factor_ > 0 && start_factor_ <= 1, *this, "a start_factor in (0, 1]", start_factor_);
    Require(end_factor_ >= 0 && end_factor_ <= 1, *this, "an end_factor in [0, 1]", end_factor_);
    Require(total_iters_ >= 1, *this, "total_iters >= 1", total_iters_);
}

double LinearLR::At(int64_t step, double base_lr, size_t /*group*/) const {
    if (step >= total_iters_) {
        return base_lr * end_factor_;
    }
    const double progress = static_cast<double>(step) / static_cast<double>(total_iters_);
    return base_lr * (start_factor_ + (end_factor_ - start_factor_) * progress);
}

StepLR::StepLR(std::shared_ptr<Optimizer> optimizer, int64_t step_size, double gamma)
    : LRScheduler("StepLR", std::move(optimizer)), step_size_(step_size), gamma_(gamma) {
    AddOption("step_size", &step_size_);
    AddOption("gamma", &gamma_);
    Start();
}

void StepLR::CheckOptions() const {
    Require(step_size_ >= 1, *this, "a step_size >= 1", step_size_);
    Require(gamma_ >= 0, *this, "gamma >= 0", gamma_);
}

double StepLR::At(int64_t step, double base_lr, size_t /*group*/) const {
    return base_lr * std::pow(gamma_, static_cast<double>(step / step_size_));
}

MultiStepLR::MultiStepLR(std::shared_ptr<Optimizer> optimizer, std::vector<int64_t> milestones, double gamma)
    : LRScheduler("MultiStepLR", std::move(optimizer)), milestones_(std::move(milestones)), gamma_(gamma) {
    AddOption("milestones", &milestones_);
    AddOption("gamma", &gamma_);
    Start();
}

void MultiStepLR::CheckOptions() const {
    RequireAscending(milestones_, *this);
    Require(gamma_ >= 0, *this, "gamma >= 0", gamma_);
}

double MultiStepLR::At(int64_t step, double base_lr, size_t /*group*/) const {
    return base_lr * std::pow(gamma_, static_cast<double>(Reached(milestones_, step)));
}

ExponentialLR::ExponentialLR(std::shared_ptr<Optimizer> optimizer, double gamma)
    : LRScheduler("ExponentialLR", std::move(optimizer)), gamma_(gamma) {
    AddOption("gamma", &gamma_);
    Start();
}

void ExponentialLR::CheckOptions() const {
    Require(gamma_ >= 0, *this, "gamma >= 0", gamma_);
}

double ExponentialLR::At(int64_t step, double base_lr, size_t /*group*/) const {
    return base_lr * std::pow(gamma_, static_cast<double>(step));
}

CosineAnnealingLR::CosineAnnealingLR(std::shared_ptr<Optimizer> optimizer, int64_t t_max, double eta_min)
    : LRScheduler("CosineAnnealingLR", std::move(optimizer)), t_max_(t_max), eta_min_(eta_min) {
    AddOption("t_max", &t_max_);
    AddOption("eta_min", &eta_min_);
    Start();
}

void CosineAnnealingLR::CheckOptions() const {
    Require(t_max_ >= 1, *this, "t_max >= 1", t_max_);
    Require(eta_min_ >= 0, *this, "eta_min >= 0", eta_min_);
}

double CosineAnnealingLR::At(int64_t step, double base_lr, size_t /*group*/) const {
    return eta_min_ + (base_lr - eta_min_) * HalfCosine(static_cast<double>(step) / static_cast<double>(t_max_));
}

WarmupCosineLR::WarmupCosineLR(std::shared_ptr<Optimizer> optimizer, int64_t warmup_steps, int64_t decay_steps,
                               double min_lr)
    : LRScheduler("WarmupCosineLR", std::move(optimizer)),
      warmup_steps_(warmup_steps),
      decay_steps_(decay_steps),
      min_lr_(min_lr) {
    AddOption("warmup_steps", &warmup_steps_);
    AddOption("decay_steps", &decay_steps_);
    AddOption("min_lr", &min_lr_);
    Start();
}

void WarmupCosineLR::CheckOptions() const {
    Require(warmup_steps_ >= 0, *this, "warmup_steps >= 0", warmup_steps_);
    Require(decay_steps_ >= warmup_steps_, *this, "decay_steps to be no less than warmup_steps", decay_steps_);
    Require(min_lr_ >= 0, *this, "min_lr >= 0", min_lr_);
}

double WarmupCosineLR::At(int64_t step, double base_lr, size_t /*group*/) const {
    if (step < warmup_steps_) {
        return base_lr * static_cast<double>(step + 1) / static_cast<double>(warmup_steps_ + 1);
    }
    if (step >= decay_steps_) {
        return min_lr_;
    }
    const double progress =
        static_cast<double>(step - warmup_steps_) / static_cast<double>(decay_steps_ - warmup_steps_);
    return min_lr_ + (base_lr - min_lr_) * HalfCosine(progress);
}

OneCycleLR::OneCycleLR(std::shared_ptr<Optimizer> optimizer, double max_lr, int64_t total_steps, double pct_start,
                       Anneal anneal, double div_factor, double final_div_factor)
    : OneCycleLR(std::move(optimizer), std::vector<double>{max_lr}, total_steps, pct_start, anneal, div_factor,
                 final_div_factor) {}

OneCycleLR::OneCycleLR(std::shared_ptr<Optimizer> optimizer, std::vector<double> max_lr, int64_t total_steps,
                       double pct_start, Anneal anneal, double div_factor, double final_div_factor)
    : LRScheduler("OneCycleLR", std::move(optimizer)),
      max_lr_(std::move(max_lr)),
      total_steps_(total_steps),
      pct_start_(pct_start),
      linear_(anneal == Anneal::kLinear ? 1 : 0),
      div_factor_(div_factor),
      final_div_factor_(final_div_factor) {
    AddOption("max_lr", &max_lr_);
    AddOption("total_steps", &total_steps_);
    AddOption("pct_start", &pct_start_);
    AddOption("linear", &linear_);
    AddOption("div_factor", &div_factor_);
    AddOption("final_div_factor", &final_div_factor_);
    Start();
}

void OneCycleLR::CheckOptions() const {
    Require(max_lr_.size() == 1 || max_lr_.size() == optimizer()->groups().size(), *this,
            "max_lr for all groups or for each", max_lr_.size());
    for (const double lr : max_lr_) {
        Require(lr >= 0, *this, "max_lr >= 0", lr);
    }
    Require(total_steps_ >= 1, *this, "total_steps >= 1", total_steps_);
    Require(pct_start_ >= 0 && pct_start_ <= 1, *this, "pct_start in [0, 1]", pct_start_);
    Require(div_factor_ > 0, *this, "div_factor > 0", div_factor_);
    Require(final_div_factor_ > 0, *this, "final_div_factor > 0", final_div_factor_);
}

double OneCycleLR::At(int64_t step, double /*base_lr*/, size_t group) const {
    const double max_lr = max_lr_[group < max_lr_.size() ? group : 0];
    const double first = max_lr / div_factor_;
    const double last = first / final_div_factor_;
    // Steps are counted from 0, hence the peak and the end lie one step before their share.
    const double end = static_cast<double>(total_steps_) - 1;
    const double peak = pct_start_ * static_cast<double>(total_steps_) - 1;
    const auto now = static_cast<double>(step);
    const auto between = [&](double from, double to, double progress) {
        return linear_ != 0 ? from + (to - from) * progress : to + (from - to) * HalfCosine(progress);
    };
    if (now <= peak) {
        return peak > 0 ? between(first, max_lr, now / peak) : max_lr;
    }
    return now < end ? between(max_lr, last, (now - peak) / (end - peak)) : last;
}

LambdaLR::LambdaLR(std::shared_ptr<Optimizer> optimizer, Lambda lambda)
    : LambdaLR(std::move(optimizer), std::vector<Lambda>{std::move(lambda)}) {}

LambdaLR::LambdaLR(std::shared_ptr<Optimizer> optimizer, std::vector<Lambda> lambdas)
    : LRScheduler("LambdaLR", std::move(optimizer)), lambdas_(std::move(lambdas)) {
    Start();
}

void LambdaLR::CheckOptions() const {
    Require(lambdas_.size() == 1 || lambdas_.size() == optimizer()->groups().size(), *this,
            "a function for all groups or for each", lambdas_.size());
    for (const Lambda &lambda : lambdas_) {
        Require(lambda != nullptr, *this, "a function", "an empty one");
    }
}

double LambdaLR::At(int64_t step, double base_lr, size_t group) const {
    return base_lr * lambdas_[group < lambdas_.size() ? group : 0](step);
}

SequentialLR::SequentialLR(std::shared_ptr<Optimizer> optimizer, std::vector<std::shared_ptr<LRScheduler>> schedulers,
                           std::vector<int64_t> milestones)
    : LRScheduler("SequentialLR", std::move(optimizer)),
      schedulers_(std::move(schedulers)),
      milestones_(std::move(milestones)) {
    RequireSchedulers(schedulers_, *this);
    AddOption("milestones", &milestones_);
    for (size_t i = 0; i < schedulers_.size(); ++i) {
        AddInner(i, *schedulers_[i]);
    }
    Start();
}

void SequentialLR::CheckOptions() const {
    RequireAscending(milestones_, *this);
    if (schedulers_.size() != milestones_.size() + 1) {
        Throw<ValueError>("SequentialLR: expected one scheduler more than the {} milestones, got {}",
                          milestones_.size(), schedulers_.size());
    }
    for (const auto &scheduler : schedulers_) {
        CheckInner(*scheduler);
    }
}

double SequentialLR::At(int64_t step, double base_lr, size_t group) const {
    const auto index = static_cast<size_t>(Reached(milestones_, step));
    return schedulers_[index]->At(index > 0 ? step - milestones_[index - 1] : step, base_lr, group);
}

ChainedScheduler::ChainedScheduler(std::vector<std::shared_ptr<LRScheduler>> schedulers)
    : LRScheduler("ChainedScheduler",
                  schedulers.empty() || schedulers[0] == nullptr ? nullptr : schedulers[0]->optimizer()),
      schedulers_(std::move(schedulers)) {
    RequireSchedulers(schedulers_, *this);
    for (size_t i = 0; i < schedulers_.size(); ++i) {
        AddInner(i, *schedulers_[i]);
    }
    Start();
}

void ChainedScheduler::CheckOptions() const {
    for (const auto &scheduler : schedulers_) {
        CheckInner(*scheduler);
    }
}

double ChainedScheduler::At(int64_t step, double base_lr, size_t group) const {
    double lr = base_lr;
    for (const auto &scheduler : schedulers_) {
        lr = scheduler->At(step, lr, group);
    }
    return lr;
}

}  // namespace infini_train::lr_schedulers
