#pragma once

#include <cstdint>
#include <string>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/nn/modules/module.h"

namespace infini_train::nn {

// Activations: one tensor of any dims (SwiGLU: two) gives one of the same dims, element by element except for the
// softmaxes.

/// max(x, 0)
class INFINI_TRAIN_EXPORT Relu : public CloneableModule<Relu> {
public:
    static constexpr char kType[] = "Relu";
    Relu() : CloneableModule(kType) {}
    TensorList Forward(const TensorList &inputs) override;
};

/// 1 / (1 + exp(-x))
class INFINI_TRAIN_EXPORT Sigmoid : public CloneableModule<Sigmoid> {
public:
    static constexpr char kType[] = "Sigmoid";
    Sigmoid() : CloneableModule(kType) {}
    TensorList Forward(const TensorList &inputs) override;
};

/// tanh(x)
class INFINI_TRAIN_EXPORT Tanh : public CloneableModule<Tanh> {
public:
    static constexpr char kType[] = "Tanh";
    Tanh() : CloneableModule(kType) {}
    TensorList Forward(const TensorList &inputs) override;
};

/// x / (1 + exp(-x)), also called swish.
class INFINI_TRAIN_EXPORT Silu : public CloneableModule<Silu> {
public:
    static constexpr char kType[] = "Silu";
    Silu() : CloneableModule(kType) {}
    TensorList Forward(const TensorList &inputs) override;
};

/// The Gaussian error linear unit, exact or its approximation through tanh (Hendrycks and Gimpel, 2016).
class INFINI_TRAIN_EXPORT Gelu : public CloneableModule<Gelu> {
public:
    static constexpr char kType[] = "Gelu";
    explicit Gelu(bool tanh_approximation = false) : CloneableModule(kType), tanh_approximation_(tanh_approximation) {}
    TensorList Forward(const TensorList &inputs) override;

protected:
    std::string ExtraRepr() const override;

private:
    const bool tanh_approximation_;
};

/// The approximation of Gelu through tanh under the name that GPT-2 gave it.
class INFINI_TRAIN_EXPORT NewGELU : public CloneableModule<NewGELU> {
public:
    static constexpr char kType[] = "NewGELU";
    NewGELU() : CloneableModule(kType) {}
    TensorList Forward(const TensorList &inputs) override;
};

/// The gated unit of LLaMA's MLP (Shazeer, "GLU variants improve Transformer", arXiv:2002.05202): inputs gate and up,
/// of the same dims, give silu(gate) * up.
class INFINI_TRAIN_EXPORT SwiGLU : public CloneableModule<SwiGLU> {
public:
    static constexpr char kType[] = "SwiGLU";
    SwiGLU() : CloneableModule(kType) {}
    TensorList Forward(const TensorList &inputs) override;
};

/// e^x over the sum of e^x along one dimension.
class INFINI_TRAIN_EXPORT Softmax : public CloneableModule<Softmax> {
public:
    static constexpr char kType[] = "Softmax";
    explicit Softmax(int64_t dim = -1) : CloneableModule(kType), dim_(dim) {}
    TensorList Forward(const TensorList &inputs) override;

protected:
    std::string ExtraRepr() const override;

private:
    const int64_t dim_;
};

/// The logarithm of Softmax.
class INFINI_TRAIN_EXPORT LogSoftmax : public CloneableModule<LogSoftmax> {
public:
    static constexpr char kType[] = "LogSoftmax";
    explicit LogSoftmax(int64_t dim = -1) : CloneableModule(kType), dim_(dim) {}
    TensorList Forward(const TensorList &inputs) override;

protected:
    std::string ExtraRepr() const override;

private:
    const int64_t dim_;
};

}  // namespace infini_train::nn
