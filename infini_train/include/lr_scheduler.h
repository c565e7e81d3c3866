#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train {

class Optimizer;

/// What all learning-rate schedulers share: the optimizer whose rates they set, group by group, and their state.
class INFINI_TRAIN_EXPORT LRSchedulerBase {
public:
    virtual ~LRSchedulerBase();
    LRSchedulerBase(const LRSchedulerBase &) = delete;
    LRSchedulerBase &operator=(const LRSchedulerBase &) = delete;

    /// The class's name.
    const std::string &type() const { return type_; }
    const std::shared_ptr<Optimizer> &optimizer() const { return optimizer_; }
    /// How many steps it has taken.
    int64_t step() const { return step_; }
    /// The rates it has set last, one a group.
    const std::vector<double> &last_lr() const { return last_lr_; }

    /// All that it goes on from: `step` (int64), `base_lr` and `lr` (float64, one number a group), and its settings, as
    /// `gamma`; those of schedulers inside another stand behind its number, as `0.gamma`. Functions aren't in it.
    std::map<std::string, TensorPtr> StateDict() const;
    /// Goes on from another one's state, with its settings, bit for bit, and sets the optimizer's rates. Throws
    /// ValueError, before anything has changed, where names or numbers don't fit.
    void LoadStateDict(const std::map<std::string, TensorPtr> &state);

protected:
    using Value = std::variant<double *, int64_t *, std::vector<double> *, std::vector<int64_t> *>;
    struct Option {
        std::string name;
        Value value;
    };

    /// Throws ValueError for a null optimizer.
    LRSchedulerBase(std::string type, std::shared_ptr<Optimizer> optimizer);

    /// Declares a setting, a member of the subclass, that belongs to the state.
    void AddOption(std::string name, Value value);
    /// Throws ValueError if the settings make no sense, whether they were given or loaded.
    virtual void CheckOptions() const = 0;

    /// Takes the rates of groups that were added meanwhile as where those begin.
    void FindNewGroups();
    /// Throws ValueError, before anything has changed, for a rate that is negative or not a number.
    void SetRates(std::vector<double> rates);
    /// The rates before any scheduler changed them, one a group.
    const std::vector<double> &base_lr() const { return base_lr_; }
    void CountStep() { ++step_; }

private:
    friend class LRScheduler;

    void CheckAll() const;

    const std::string type_;
    const std::shared_ptr<Optimizer> optimizer_;
    int64_t step_ = 0;
    std::vector<double> base_lr_;
    std::vector<double> last_lr_;
    std::vector<Option> options_;
};

/// A learning rate that depends on the number of the step alone:
///
///     lr_schedulers::StepLR scheduler(optimizer, /*step_size=*/30, /*gamma=*/0.1);
///     for (...) {
///         optimizer->Step();
///         scheduler.Step();
///     }
///
/// Made, it sets the rates of step 0. What it multiplies are the rates that the optimizer had before its first
/// scheduler; a rate set by hand lasts until the next step. A step is whatever the caller counts: updates or epochs.
class INFINI_TRAIN_EXPORT LRScheduler : public LRSchedulerBase {
public:
    /// Goes to the next step. Throws ValueError, before anything has changed, for a rate that is negative or not a
    /// number.
    void Step();

    /// The rate of a step (from 0) for a group that began with `base_lr`.
    virtual double At(int64_t step, double base_lr, size_t group) const = 0;

protected:
    using LRSchedulerBase::LRSchedulerBase;

    /// Checks the settings and sets the first rates: a subclass's constructor ends with it.
    void Start();
    /// Makes the settings of another scheduler part of this one's state.
    void AddInner(size_t number, LRScheduler &inner);
    void CheckInner(const LRScheduler &inner) const { inner.CheckOptions(); }

private:
    std::vector<double> Rates(int64_t step) const;
};

/// The schedulers of torch.optim.lr_scheduler, and nanoGPT's. All constructors throw ValueError for settings that make
/// no sense.
namespace lr_schedulers {

/// base_lr * factor before step `total_iters`, from there on base_lr.
class INFINI_TRAIN_EXPORT ConstantLR : public LRScheduler {
public:
    /// `factor` is in [0, 1].
    explicit ConstantLR(std::shared_ptr<Optimizer> optimizer, double factor = 1.0 / 3, int64_t total_iters = 5);
    double At(int64_t step, double base_lr, size_t group) const override;

protected:
    void CheckOptions() const override;

private:
    double factor_;
    int64_t total_iters_;
};

/// A linear warm-up (or decay): the factor goes from `start_factor` in (0, 1] to `end_factor` in [0, 1] within
/// `total_iters` steps and stays there.
class INFINI_TRAIN_EXPORT LinearLR : public LRScheduler {
public:
    explicit LinearLR(std::shared_ptr<Optimizer> optimizer, double start_factor = 1.0 / 3, double end_factor = 1.0,
                      int64_t total_iters = 5);
    double At(int64_t step, double base_lr, size_t group) const override;

protected:
    void CheckOptions() const override;

private:
    double start_factor_;
    double end_factor_;
    int64_t total_iters_;
};

/// base_lr * gamma^(step / step_size), the quotient rounded down.
class INFINI_TRAIN_EXPORT StepLR : public LRScheduler {
public:
    StepLR(std::shared_ptr<Optimizer> optimizer, int64_t step_size, double gamma = 0.1);
    double At(int64_t step, double base_lr, size_t group) const override;

protected:
    void CheckOptions() const override;

private:
    int64_t step_size_;
    double gamma_;
};

/// base_lr * gamma^m, m the number of milestones that are reached. The milestones are in ascending order; one given
/// twice counts twice.
class INFINI_TRAIN_EXPORT MultiStepLR : public LRScheduler {
public:
    MultiStepLR(std::shared_ptr<Optimizer> optimizer, std::vector<int64_t> milestones, double gamma = 0.1);
    double At(int64_t step, double base_lr, size_t group) const override;

protected:
    void CheckOptions() const override;

private:
    std::vector<int64_t> milestones_;
    double gamma_;
};

/// base_lr * gamma^step.
class INFINI_TRAIN_EXPORT ExponentialLR : public LRScheduler {
public:
    ExponentialLR(std::shared_ptr<Optimizer> optimizer, double gamma);
    double At(int64_t step, double base_lr, size_t group) const override;

protected:
    void CheckOptions() const override;

private:
    double gamma_;
};

/// From base_lr to `eta_min` along half a cosine within `t_max` steps, and back up within the next ones (SGDR,
/// Loshchilov and Hutter, 2017): eta_min + (base_lr - eta_min) * (1 + cos(pi * step / t_max)) / 2.
class INFINI_TRAIN_EXPORT CosineAnnealingLR : public LRScheduler {
public:
    CosineAnnealingLR(std::shared_ptr<Optimizer> optimizer, int64_t t_max, double eta_min = 0.0);
    double At(int64_t step, double base_lr, size_t group) const override;

protected:
    void CheckOptions() const override;

private:
    int64_t t_max_;
    double eta_min_;
};

/// nanoGPT's schedule: base_lr * (step + 1) / (warmup_steps + 1) at first, from step `warmup_steps` on along half a
/// cosine down to `min_lr`, which is reached at step `decay_steps` and kept.
class INFINI_TRAIN_EXPORT WarmupCosineLR : public LRScheduler {
public:
    WarmupCosineLR(std::shared_ptr<Optimizer> optimizer, int64_t warmup_steps, int64_t decay_steps,
                   double min_lr = 0.0);
    double At(int64_t step, double base_lr, size_t group) const override;

protected:
    void CheckOptions() const override;

private:
    int64_t warmup_steps_;
    int64_t decay_steps_;
    double min_lr_;
};

/// The one-cycle policy (Smith and Topin, 2018): from max_lr / div_factor up to max_lr within the first `pct_start` of
/// `total_steps`, down to max_lr / div_factor / final_div_factor within the rest, where it stays. Momentum is left
/// alone.
class INFINI_TRAIN_EXPORT OneCycleLR : public LRScheduler {
public:
    enum class Anneal : uint8_t { kCosine, kLinear };

    /// `max_lr` is for all groups, or a list with one for each.
    OneCycleLR(std::shared_ptr<Optimizer> optimizer, double max_lr, int64_t total_steps, double pct_start = 0.3,
               Anneal anneal = Anneal::kCosine, double div_factor = 25.0, double final_div_factor = 1e4);
    OneCycleLR(std::shared_ptr<Optimizer> optimizer, std::vector<double> max_lr, int64_t total_steps,
               double pct_start = 0.3, Anneal anneal = Anneal::kCosine, double div_factor = 25.0,
               double final_div_factor = 1e4);
    double At(int64_t step, double base_lr, size_t group) const override;

protected:
    void CheckOptions() const override;

private:
    std::vector<double> max_lr_;
    int64_t total_steps_;
    double pct_start_;
    int64_t linear_;  // 0 or 1
    double div_factor_;
    double final_div_factor_;
};

/// base_lr * lambda(step). The functions aren't part of the state.
class INFINI_TRAIN_EXPORT LambdaLR : public LRScheduler {
public:
    using Lambda = std::function<double(int64_t step)>;

    /// One function for all groups, or a list with one for each.
    LambdaLR(std::shared_ptr<Optimizer> optimizer, Lambda lambda);
    LambdaLR(std::shared_ptr<Optimizer> optimizer, std::vector<Lambda> lambdas);
    double At(int64_t step, double base_lr, size_t group) const override;

protected:
    void CheckOptions() const override;

private:
    std::vector<Lambda> lambdas_;
};

/// One scheduler after the other: number i from milestone i - 1 on (the first from 0), each of which counts its steps
/// from there. Their own Step isn't called any more.
class INFINI_TRAIN_EXPORT SequentialLR : public LRScheduler {
public:
    /// Schedulers of the same optimizer, one more than ascending milestones.
    SequentialLR(std::shared_ptr<Optimizer> optimizer, std::vector<std::shared_ptr<LRScheduler>> schedulers,
                 std::vector<int64_t> milestones);
    double At(int64_t step, double base_lr, size_t group) const override;

protected:
    void CheckOptions() const override;

private:
    std::vector<std::shared_ptr<LRScheduler>> schedulers_;
    std::vector<int64_t> milestones_;
};

/// Several at once: each begins with the rate that the one before it gives, so that factors multiply. Their own Step
/// isn't called any more.
class INFINI_TRAIN_EXPORT ChainedScheduler : public LRScheduler {
public:
    /// At least one scheduler, all of the same optimizer.
    explicit ChainedScheduler(std::vector<std::shared_ptr<LRScheduler>> schedulers);
    double At(int64_t step, double base_lr, size_t group) const override;

protected:
    void CheckOptions() const override;

private:
    std::vector<std::shared_ptr<LRScheduler>> schedulers_;
};

/// Multiplies the rates by a factor when a metric has stopped improving, say the loss of each evaluation.
class INFINI_TRAIN_EXPORT ReduceLROnPlateau : public LRSchedulerBase {
public:
    struct Options {
        bool maximize = false;            ///< larger is better
        double factor = 0.1;              ///< in [0, 1)
        int64_t patience = 10;            ///< bad steps that are let pass
        double threshold = 1e-4;          ///< how much better counts
        bool relative_threshold = true;   ///< as a fraction of the best, or absolute
        int64_t cooldown = 0;             ///< steps after a reduction in which none is bad
        std::vector<double> min_lr = {};  ///< no rate falls below; none, one, or one a group
        double eps = 1e-8;                ///< a smaller change isn't made
    };

    explicit ReduceLROnPlateau(std::shared_ptr<Optimizer> optimizer);
    ReduceLROnPlateau(std::shared_ptr<Optimizer> optimizer, Options options);

    /// Takes the metric's next value, which is bad unless it is better than the best so far (so is NaN).
    void Step(double metric);
    double best() const { return best_; }
    int64_t num_bad_steps() const { return num_bad_; }

protected:
    void CheckOptions() const override;

private:
    bool IsBetter(double metric) const;
    std::vector<double> Rates(bool reduce) const;

    Options settings_;
    int64_t maximize_;  // 0 or 1, as the next
    int64_t relative_;
    double best_;
    int64_t num_bad_ = 0;
    int64_t cooldown_left_ = 0;
};

}  // namespace lr_schedulers
}  // namespace infini_train
