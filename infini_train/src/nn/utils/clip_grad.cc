#include "infini_train/include/nn/utils/clip_grad.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/core/dispatcher.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/kernels/clip_grad.h"
#include "infini_train/src/tensor/shape.h"

namespace infini_train::nn::utils {
namespace {

/// The gradients of a list of parameters as the kernels want them, those of each device for themselves.
class Gradients {
public:
    Gradients(const TensorList &params, const char *name) {
        std::unordered_set<const void *> seen;
        for (size_t i = 0; i < params.size(); ++i) {
            if (params[i] == nullptr) {
                Throw<ValueError>("{}: parameter {} is null", name, i);
            }
            const TensorPtr grad = params[i]->grad();
            if (grad == nullptr || grad->NumElements() == 0) {
                continue;
            }
            if (!IsFloatingPoint(grad->Dtype())) {
                Throw<DtypeError>("{}: expected floating-point gradients, that of parameter {} holds {}", name, i,
                                  ToString(grad->Dtype()));
            }
            if (!seen.insert(grad->DataPtr()).second) {
                Throw<ValueError>("{}: the gradient of parameter {} is there twice", name, i);
            }
            Add(grad);
        }
    }

    /// The norm's power sum, or its maximum.
    double Measure(kernels::GradNormKind kind) const {
        double total = 0;
        for (const auto &[device, grads] : devices_) {
            const auto part = Dispatch<kernels::GradNorm>(device, std::span<const kernels::FlatGrad>(grads), kind);
            if (kind == kernels::GradNormKind::kMaxAbs) {
                total = part <= total || std::isnan(total) ? total : part;
            } else {
                total += part;
            }
        }
        return total;
    }

    template <typename Tag>
    void Change(double number) {
        for (const auto &[device, grads] : devices_) {
            Dispatch<Tag>(device, std::span<const kernels::FlatGrad>(grads), number);
        }
        for (const auto &[grad, dense] : tensors_) {
            if (grad == dense) {
                grad->storage()->BumpVersion();
            } else {
                grad->CopyFrom(*dense);
            }
        }
    }

private:
    void Add(const TensorPtr &grad) {
        const Device device = grad->GetDevice();
        auto entry = std::find_if(devices_.begin(), devices_.end(), [&](const auto &e) { return e.first == device; });
        if (entry == devices_.end()) {
            entry = devices_.insert(devices_.end(), {device, {}});
        }
        std::vector<kernels::FlatGrad> &grads = entry->second;
        const TensorPtr dense = ContiguousCopy(grad);
        const int64_t begin = grads.empty() ? 0 : grads.back().begin + grads.back().num_elements;
        grads.push_back({dense->DataPtr(), begin, dense->NumElements(), dense->Dtype()});
        tensors_.emplace_back(grad, dense);
    }

    std::vector<std::pair<TensorPtr, TensorPtr>> tensors_;  // each with itself, or with a contiguous copy
    std::vector<std::pair<Device, std::vector<kernels::FlatGrad>>> devices_;
};

}  // namespace

double ClipGradNorm(const TensorList &params, double max_norm, double norm_type, bool error_if_nonfinite) {
    using Kind = kernels::GradNormKind;
    if (!(max_norm >= 0)) {
        Throw<ValueError>("ClipGradNorm: expected max_norm >= 0, got {}", max_norm);
    }
    const bool is_inf = std::isinf(norm_type) && norm_type > 0;
    if (norm_type != 1 && norm_type != 2 && !is_inf) {
        Throw<ValueError>("ClipGradNorm: expected a norm of type 1, 2 or inf, got {}", norm_type);
    }
    const autograd::NoGradGuard no_grad;
    Gradients gradients(params, "ClipGradNorm");
    const double measured = gradients.Measure(is_inf           ? Kind::kMaxAbs
                                              : norm_type == 1 ? Kind::kSumOfAbs
                                                               : Kind::kSumOfSquares);
    const double norm = norm_type == 2 ? std::sqrt(measured) : measured;
    if (error_if_nonfinite && !std::isfinite(norm)) {
        Throw<ValueError>("ClipGradNorm: expected a finite norm of the gradients, got {}", norm);
    }
    constexpr double kAwayFromZero = 1e-6;
    if (!std::isinf(max_norm)) {
        const double factor = max_norm / (norm + kAwayFromZero);
        if (!(factor >= 1)) {  // true for NaN, too
            gradients.Change<kernels::ScaleGrads>(factor);
        }
    }
    return norm;
}

void ClipGradValue(const TensorList &params, double clip_value) {
    if (!(clip_value >= 0)) {
        Throw<ValueError>("ClipGradValue: expected a limit >= 0, got {}", clip_value);
    }
    const autograd::NoGradGuard no_grad;
    Gradients(params, "ClipGradValue").Change<kernels::ClampGrads>(clip_value);
}

void ScaleGrads(const TensorList &params, double factor) {
    const autograd::NoGradGuard no_grad;
    Gradients(params, "ScaleGrads").Change<kernels::ScaleGrads>(factor);
}

}  // namespace infini_train::nn::utils
