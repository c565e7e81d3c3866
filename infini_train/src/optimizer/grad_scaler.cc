#include "infini_train/include/grad_scaler.h"

#include <cmath>
#include <limits>

#include "infini_train/include/common/error.h"
#include "infini_train/include/nn/utils/clip_grad.h"
#include "infini_train/include/optimizer.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"

namespace infini_train {

GradScaler::GradScaler(const Options &options) : options_(options), scale_(options.init_scale) {
    if (!(options.init_scale > 0) || !std::isfinite(options.init_scale) || !(options.growth_factor > 1) ||
        !(options.backoff_factor > 0 && options.backoff_factor < 1) || options.growth_interval <= 0) {
        Throw<ValueError>(
            "GradScaler: expected init_scale > 0, growth_factor > 1, 0 < backoff_factor < 1 and growth_interval > 0, "
            "got "
            "{}, {}, {} and {}",
            options.init_scale, options.growth_factor, options.backoff_factor, options.growth_interval);
    }
}

TensorPtr GradScaler::Scale(const TensorPtr &loss) const {
    return options_.enabled ? loss->Mul(scale_) : loss;
}

void GradScaler::Unscale(Optimizer *optimizer) {
    if (!options_.enabled) {
        return;
    }
    if (stepped_.contains(optimizer)) {
        throw ValueError(
            "GradScaler::Unscale: the optimizer's step was taken; expected it before Step, or after Update");
    }
    if (unscaled_.contains(optimizer)) {
        throw ValueError("GradScaler::Unscale: expected one call for an optimizer between two of Update, got a second");
    }
    for (const TensorPtr &param : optimizer->params()) {
        const TensorPtr grad = param->grad();
        if (grad != nullptr && SizeOf(grad->Dtype()) == 2) {
            Throw<ValueError>(
                "GradScaler::Unscale: expected float32 gradients, got {}: keep the parameters in float32 and use "
                "AutocastGuard",
                ToString(grad->Dtype()));
        }
    }
    constexpr double kNoLimit = std::numeric_limits<double>::infinity();
    nn::utils::ScaleGrads(optimizer->params(), 1.0 / scale_);
    if (!std::isfinite(nn::utils::ClipGradNorm(optimizer->params(), kNoLimit, /*norm_type=*/kNoLimit))) {
        overflowed_.insert(optimizer);
        found_non_finite_ = true;
    }
    unscaled_.insert(optimizer);
}

bool GradScaler::Step(Optimizer *optimizer) {
    if (!options_.enabled) {
        optimizer->Step();
        return true;
    }
    if (stepped_.contains(optimizer)) {
        throw ValueError("GradScaler::Step: expected one step of an optimizer between two of Update, got a second");
    }
    if (!unscaled_.contains(optimizer)) {
        Unscale(optimizer);
    }
    stepped_.insert(optimizer);
    if (overflowed_.contains(optimizer)) {
        return false;
    }
    optimizer->Step();
    return true;
}

void GradScaler::Update(std::optional<double> new_scale) {
    if (!options_.enabled) {
        return;
    }
    if (new_scale) {
        if (!(*new_scale > 0) || !std::isfinite(*new_scale)) {
            Throw<ValueError>("GradScaler::Update: expected a scale above 0, got {}", *new_scale);
        }
        scale_ = *new_scale;
    } else if (unscaled_.empty()) {
        throw ValueError("GradScaler::Update: expected a Step or an Unscale before it");
    } else if (found_non_finite_) {
        scale_ *= options_.backoff_factor;
        steps_since_growth_ = 0;
    } else if (++steps_since_growth_ == options_.growth_interval) {
        const double grown = scale_ * options_.growth_factor;
        scale_ = std::isfinite(static_cast<float>(grown)) ? grown : scale_;
        steps_since_growth_ = 0;
    }
    found_non_finite_ = false;
    unscaled_.clear();
    overflowed_.clear();
    stepped_.clear();
}

std::map<std::string, double> GradScaler::StateDict() const {
    return {{"scale", scale_}, {"steps_since_growth", static_cast<double>(steps_since_growth_)}};
}

void GradScaler::LoadStateDict(const std::map<std::string, double> &state) {
    const auto scale = state.find("scale"), steps = state.find("steps_since_growth");
    if (scale == state.end() || steps == state.end()) {
        throw ValueError("GradScaler::LoadStateDict: expected 'scale' and 'steps_since_growth'");
    }
    scale_ = scale->second;
    steps_since_growth_ = static_cast<int64_t>(steps->second);
}

}  // namespace infini_train
