#pragma once

#include <cstdint>
#include <vector>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train::autograd {

/// Layer normalisation over the trailing dimensions: (x - mean) / sqrt(variance + eps) * weight + bias.
///
/// Inputs are x (..., shape) and, each optional or null, weight and bias of `shape`. Without a shape given it is that
/// of the weight or bias, and without those x's last dimension. All have one floating-point type (DtypeError);
/// ShapeError where x doesn't end in the shape.
class INFINI_TRAIN_EXPORT LayerNorm : public Function {
public:
    static constexpr char kType[] = "LayerNorm";

    explicit LayerNorm(double eps = 1e-5, std::vector<int64_t> normalized_shape = {})
        : Function(kType), eps_(eps), given_shape_(std::move(normalized_shape)) {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    void CheckShapes(const TensorList &inputs);
    TensorList ComposedBackward(const TensorPtr &grad, const TensorPtr &x, const TensorPtr &weight) const;
    bool NeedsGrad(size_t i) const { return i < num_inputs_ && ctx_.needs_input_grad(i) && present_[i]; }

    const double eps_;
    const std::vector<int64_t> given_shape_;
    std::vector<int64_t> shape_;
    int64_t rows_ = 0;
    int64_t n_ = 0;
    size_t num_inputs_ = 0;
    bool present_[3] = {};
    TensorPtr mean_, rstd_;  // between Forward and SetupContext
};

/// x / sqrt(mean(x^2) + eps) * weight over the last dimension (Zhang and Sennrich, "Root mean square layer
/// normalization", 2019).
///
/// Inputs are x (..., n) and, optional or null, a weight (n) of the same floating-point type (DtypeError, ShapeError).
class INFINI_TRAIN_EXPORT RMSNorm : public Function {
public:
    static constexpr char kType[] = "RMSNorm";

    explicit RMSNorm(double eps = 1e-5) : Function(kType), eps_(eps) {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    TensorList ComposedBackward(const TensorPtr &grad, const TensorPtr &x, const TensorPtr &weight) const;

    const double eps_;
    size_t num_inputs_ = 0;
    TensorPtr rstd_;  // between Forward and SetupContext
};

}  // namespace infini_train::autograd
