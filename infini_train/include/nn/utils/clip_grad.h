#pragma once

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train::nn::utils {

/// Scales the gradients of `params` in place so that their norm, taken over all of them as if they were one vector, is
/// at most `max_norm`, and returns what the norm was; the factor is min(1, max_norm / (norm + 1e-6)), as in PyTorch.
/// `norm_type` is 1, 2 or infinity. The norm is added up in float64, in an order that depends on neither threads nor
/// machine. An infinite `max_norm` only measures. Parameters without a gradient don't count.
///
/// A norm that is infinite or not a number makes nonsense of the gradients, or with `error_if_nonfinite` throws
/// ValueError and leaves them alone. Also ValueError for another norm, a negative `max_norm`, a null parameter and a
/// gradient that is there twice; DtypeError for one that isn't floating-point.
INFINI_TRAIN_EXPORT double ClipGradNorm(const TensorList &params, double max_norm, double norm_type = 2.0,
                                        bool error_if_nonfinite = false);

/// Limits each element of the gradients of `params` to [-clip_value, clip_value], in place; NaN stays. Throws
/// ValueError for a negative limit, and what ClipGradNorm throws for parameters.
INFINI_TRAIN_EXPORT void ClipGradValue(const TensorList &params, double clip_value);

/// Multiplies all gradients by a factor.
INFINI_TRAIN_EXPORT void ScaleGrads(const TensorList &params, double factor);

}  // namespace infini_train::nn::utils
