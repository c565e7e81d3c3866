#pragma once

#include "infini_train/include/autograd/elementwise_base.h"
#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train::autograd {

// Activations, element by element; any dims. Integers give float32, except Relu, which keeps them.

/// 1 / (1 + exp(-x))
class INFINI_TRAIN_EXPORT Sigmoid : public UnaryFunction {
public:
    static constexpr char kType[] = "Sigmoid";
    Sigmoid();

protected:
    TensorPtr InputGrad(const TensorPtr &grad, const TensorPtr &kept) override;
};

/// max(x, 0); its derivative at 0 is 0. bool is a DtypeError.
class INFINI_TRAIN_EXPORT Relu : public UnaryFunction {
public:
    static constexpr char kType[] = "Relu";
    Relu();

protected:
    TensorPtr InputGrad(const TensorPtr &grad, const TensorPtr &kept) override;
};

/// x / (1 + exp(-x)), also called swish.
class INFINI_TRAIN_EXPORT Silu : public UnaryFunction {
public:
    static constexpr char kType[] = "Silu";
    Silu();

protected:
    TensorPtr InputGrad(const TensorPtr &grad, const TensorPtr &kept) override;
};

/// The Gaussian error linear unit: x P(X <= x) for a standard normal X, or its approximation through tanh, 0.5 x
/// (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) (Hendrycks and Gimpel, 2016).
class INFINI_TRAIN_EXPORT Gelu : public UnaryFunction {
public:
    static constexpr char kType[] = "Gelu";
    explicit Gelu(bool tanh_approximation = false);

protected:
    TensorPtr InputGrad(const TensorPtr &grad, const TensorPtr &kept) override;

private:
    const bool tanh_approximation_;
};

}  // namespace infini_train::autograd
