#pragma once

#include "infini_train/include/autograd/elementwise_base.h"
#include "infini_train/include/autograd/function.h"
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

/// silu(gate) * up, the gated linear unit of LLaMA's feed-forward layers (Shazeer, "GLU variants improve Transformer",
/// 2020), in one pass. Inputs are gate and up, of the same dims and floating-point type (ShapeError, DtypeError), often
/// the halves of one tensor.
class INFINI_TRAIN_EXPORT SwiGLU : public Function {
public:
    static constexpr char kType[] = "SwiGLU";

    SwiGLU() : Function(kType) {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;
};

}  // namespace infini_train::autograd
