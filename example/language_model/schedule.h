#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "infini_train/include/lr_scheduler.h"
#include "infini_train/include/optimizer.h"

namespace infini_train::example {

struct ScheduleOptions {
    std::string kind = "cosine";  // as --lr_schedule
    double learning_rate = 1e-3;
    double min_lr = 1e-4;
    int64_t warmup_steps = 0;
    int64_t decay_steps = 1;  // the step at which the rate has fallen
    int64_t step_size = 500;
    double gamma = 0.5;
};

/// The learning rate over a run, whichever scheduler of the library gives it.
class Schedule {
public:
    /// Throws UsageError for a plateau with a warm-up or a warm-up that is longer than the decay.
    Schedule(const ScheduleOptions &options, const std::shared_ptr<Optimizer> &optimizer);

    void AfterStep();
    void AfterValidation(double loss);

    /// For a checkpoint.
    LRSchedulerBase *scheduler();
    /// `cosine from 0.001 to 0.0001, warm-up 100 steps`.
    std::string Describe() const;

private:
    const ScheduleOptions options_;
    std::shared_ptr<LRScheduler> by_step_;
    std::shared_ptr<lr_schedulers::ReduceLROnPlateau> by_loss_;
};

}  // namespace infini_train::example
