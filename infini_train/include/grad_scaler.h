#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train {

class Optimizer;

/// Keeps float16 gradients from becoming zero: the loss is multiplied by a large number, the gradients are divided by
/// it before the step, a step whose gradients overflowed is left out, and the number follows what overflows. As
/// PyTorch's GradScaler. bfloat16 doesn't need it.
///
///     optimizer.ZeroGrad();
///     {
///         const autograd::AutocastGuard autocast(DeviceType::kCUDA, DataType::kFLOAT16);
///         loss = ...;
///     }
///     scaler.Scale(loss)->Backward();
///     scaler.Unscale(&optimizer);  // only if the gradients are to be clipped or looked at
///     nn::utils::ClipGradNorm(parameters, 1.0);
///     scaler.Step(&optimizer);
///     scaler.Update();
class INFINI_TRAIN_EXPORT GradScaler {
public:
    struct Options {
        double init_scale = 65536.0;
        double growth_factor = 2.0;   ///< by which the scale grows after growth_interval steps without an overflow
        double backoff_factor = 0.5;  ///< by which it shrinks after a step with one
        int64_t growth_interval = 2000;
        bool enabled = true;  ///< otherwise everything passes through
    };

    /// Throws ValueError unless init_scale > 0, growth_factor > 1, 0 < backoff_factor < 1 and growth_interval > 0.
    explicit GradScaler(const Options &options);
    GradScaler() : GradScaler(Options()) {}

    /// loss * scale()
    TensorPtr Scale(const TensorPtr &loss) const;
    /// Divides the gradients of the optimizer's parameters by the scale, and notes whether all are finite. Throws
    /// ValueError if that was done since the last Update, or for 16-bit gradients, which have lost too much.
    void Unscale(Optimizer *optimizer);
    /// Unscale, if it wasn't called, and the optimizer's step if all gradients are finite; whether it was taken. Throws
    /// ValueError for a second step of one optimizer since the last Update.
    bool Step(Optimizer *optimizer);
    /// Moves the scale, to a number if one is given. Throws ValueError if there was no Step or Unscale since the last
    /// one.
    void Update(std::optional<double> new_scale = std::nullopt);

    double scale() const { return options_.enabled ? scale_ : 1.0; }
    bool enabled() const { return options_.enabled; }
    /// Whether a gradient wasn't finite since the last Update.
    bool FoundNonFinite() const { return found_non_finite_; }

    /// `scale` and `steps_since_growth`, for a checkpoint's numbers. Loading throws ValueError for a state without
    /// them.
    std::map<std::string, double> StateDict() const;
    void LoadStateDict(const std::map<std::string, double> &state);

private:
    const Options options_;
    double scale_;
    int64_t steps_since_growth_ = 0;
    bool found_non_finite_ = false;
    // Since the last Update.
    std::set<const Optimizer *> unscaled_, overflowed_, stepped_;
};

}  // namespace infini_train
