#include "infini_train/include/nn/modules/activations.h"

#include "infini_train/include/nn/functional.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/nn/inputs.h"

namespace infini_train::nn {

TensorList Relu::Forward(const TensorList &inputs) {
    CheckModuleInputs(*this, inputs, 1);
    return {inputs[0]->Relu()};
}

TensorList Sigmoid::Forward(const TensorList &inputs) {
    CheckModuleInputs(*this, inputs, 1);
    return {inputs[0]->Sigmoid()};
}

TensorList Tanh::Forward(const TensorList &inputs) {
    CheckModuleInputs(*this, inputs, 1);
    return {inputs[0]->Tanh()};
}

TensorList Silu::Forward(const TensorList &inputs) {
    CheckModuleInputs(*this, inputs, 1);
    return {inputs[0]->Silu()};
}

TensorList Gelu::Forward(const TensorList &inputs) {
    CheckModuleInputs(*this, inputs, 1);
    return {inputs[0]->Gelu(tanh_approximation_)};
}

std::string Gelu::ExtraRepr() const {
    return fmt::format("approximate='{}'", tanh_approximation_ ? "tanh" : "none");
}

TensorList NewGELU::Forward(const TensorList &inputs) {
    CheckModuleInputs(*this, inputs, 1);
    return {inputs[0]->Gelu(/*tanh_approximation=*/true)};
}

TensorList SwiGLU::Forward(const TensorList &inputs) {
    CheckModuleInputs(*this, inputs, 2);
    return {function::SwiGlu(inputs[0], inputs[1])};
}

TensorList Softmax::Forward(const TensorList &inputs) {
    CheckModuleInputs(*this, inputs, 1);
    return {inputs[0]->Softmax(dim_)};
}

std::string Softmax::ExtraRepr() const {
    return fmt::format("dim={}", dim_);
}

TensorList LogSoftmax::Forward(const TensorList &inputs) {
    CheckModuleInputs(*this, inputs, 1);
    return {inputs[0]->LogSoftmax(dim_)};
}

std::string LogSoftmax::ExtraRepr() const {
    return fmt::format("dim={}", dim_);
}

}  // namespace infini_train::nn
