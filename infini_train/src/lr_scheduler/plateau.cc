#include <algorithm>
#include <limits>
#include <utility>

#include "infini_train/include/common/error.h"
#include "infini_train/include/lr_scheduler.h"
#include "infini_train/include/optimizer.h"

#include "infini_train/src/common/format.h"

namespace infini_train::lr_schedulers {

ReduceLROnPlateau::ReduceLROnPlateau(std::shared_ptr<Optimizer> optimizer)
    : ReduceLROnPlateau(std::move(optimizer), Options()) {}

ReduceLROnPlateau::ReduceLROnPlateau(std::shared_ptr<Optimizer> optimizer, Options options)
    : LRSchedulerBase("ReduceLROnPlateau", std::move(optimizer)),
      settings_(std::move(options)),
      maximize_(settings_.maximize ? 1 : 0),
      relative_(settings_.relative_threshold ? 1 : 0),
      best_(settings_.maximize ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity()) {
    AddOption("maximize", &maximize_);
    AddOption("factor", &settings_.factor);
    AddOption("patience", &settings_.patience);
    AddOption("threshold", &settings_.threshold);
    AddOption("relative_threshold", &relative_);
    AddOption("cooldown", &settings_.cooldown);
    AddOption("min_lr", &settings_.min_lr);
    AddOption("eps", &settings_.eps);
    AddOption("best", &best_);
    AddOption("num_bad", &num_bad_);
    AddOption("cooldown_left", &cooldown_left_);
    CheckOptions();
}

void ReduceLROnPlateau::CheckOptions() const {
    const auto require = [](bool fits, const char *expected, auto value) {
        if (!fits) {
            Throw<ValueError>("ReduceLROnPlateau: expected {}, got {}", expected, value);
        }
    };
    require(settings_.factor >= 0 && settings_.factor < 1, "a factor in [0, 1)", settings_.factor);
    require(settings_.patience >= 0, "patience >= 0", settings_.patience);
    require(settings_.threshold >= 0, "threshold >= 0", settings_.threshold);
    require(settings_.cooldown >= 0, "cooldown >= 0", settings_.cooldown);
    require(settings_.eps >= 0, "eps >= 0", settings_.eps);
    require(settings_.min_lr.size() <= 1 || settings_.min_lr.size() == optimizer()->groups().size(),
            "min_lr for all groups or for each", settings_.min_lr.size());
    for (const double lr : settings_.min_lr) {
        require(lr >= 0, "min_lr >= 0", lr);
    }
    require(num_bad_ >= 0, "num_bad >= 0", num_bad_);
    require(cooldown_left_ >= 0, "cooldown_left >= 0", cooldown_left_);
}

bool ReduceLROnPlateau::IsBetter(double metric) const {
    const double margin = settings_.threshold;
    if (maximize_ != 0) {
        return metric > (relative_ != 0 ? best_ * (1 + margin) : best_ + margin);
    }
    return metric < (relative_ != 0 ? best_ * (1 - margin) : best_ - margin);
}

std::vector<double> ReduceLROnPlateau::Rates(bool reduce) const {
    std::vector<double> rates;
    for (size_t i = 0; i < optimizer()->groups().size(); ++i) {
        const double lr = optimizer()->learning_rate(i);
        const auto &least = settings_.min_lr;
        const double min_lr = least.empty() ? 0 : least[i < least.size() ? i : 0];
        const double reduced = std::max(lr * settings_.factor, min_lr);
        rates.push_back(reduce && lr - reduced > settings_.eps ? reduced : lr);
    }
    return rates;
}

void ReduceLROnPlateau::Step(double metric) {
    FindNewGroups();
    if (IsBetter(metric)) {
        best_ = metric;
        num_bad_ = 0;
    } else {
        ++num_bad_;
    }
    if (cooldown_left_ > 0) {
        --cooldown_left_;
        num_bad_ = 0;
    }
    const bool reduce = num_bad_ > settings_.patience;
    SetRates(Rates(reduce));
    if (reduce) {
        cooldown_left_ = settings_.cooldown;
        num_bad_ = 0;
    }
    CountStep();
}

}  // namespace infini_train::lr_schedulers
