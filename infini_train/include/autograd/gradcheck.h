#pragma once

#include <functional>
#include <string>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train::autograd {

struct GradCheckOptions {
    double eps = 1e-6;   ///< the step of the central difference
    double atol = 1e-5;  ///< |analytical - numerical| <= atol + rtol * |numerical|
    double rtol = 1e-3;
    bool any_dtype = false;  ///< takes other types than float64, which need a larger eps and tolerances
};

/// What a check found; `message` says which input and output, which elements, and both values.
struct GradCheckResult {
    bool ok = true;
    std::string message;
    explicit operator bool() const { return ok; }
};

/// A function to check. It must be deterministic and may have several outputs.
using CheckedFunction = std::function<TensorList(const TensorList &inputs)>;

/// Compares the gradients of `function` with central differences (f(x + eps) - f(x - eps)) / (2 eps), element by
/// element for all outputs with respect to all inputs that require a gradient; also that the gradients don't depend on
/// how the gradient of the output lies in memory. Null gradients count as zero. Throws DtypeError for an input that
/// requires a gradient and isn't float64, ValueError if none requires one or an input overlaps itself (an expanded
/// one).
INFINI_TRAIN_EXPORT GradCheckResult GradCheck(const CheckedFunction &function, const TensorList &inputs,
                                              const GradCheckOptions &options = {});

/// GradCheck of the gradients: of the map from the inputs and from the gradients of the outputs (random, or
/// `grad_outputs`) to the gradients of the inputs.
INFINI_TRAIN_EXPORT GradCheckResult GradGradCheck(const CheckedFunction &function, const TensorList &inputs,
                                                  const TensorList &grad_outputs = {},
                                                  const GradCheckOptions &options = {});

}  // namespace infini_train::autograd
