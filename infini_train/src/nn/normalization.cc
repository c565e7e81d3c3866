#include "infini_train/include/nn/modules/normalization.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "infini_train/include/autograd/normalization.h"
#include "infini_train/include/nn/functional.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/nn/inputs.h"

namespace infini_train::nn {

LayerNorm::LayerNorm(std::vector<int64_t> normalized_shape, double eps, bool elementwise_affine, bool bias,
                     Device device, DataType dtype)
    : CloneableModule(kType), normalized_shape_(std::move(normalized_shape)), eps_(eps) {
    if (normalized_shape_.empty() || *std::min_element(normalized_shape_.begin(), normalized_shape_.end()) < 1) {
        Throw<ValueError>("LayerNorm: expected a shape of at least one dimension, each of at least 1, got {}",
                          FormatDims(normalized_shape_));
    }
    RegisterParameter(kParamWeightName,
                      elementwise_affine ? Tensor::Ones(normalized_shape_, dtype, device)->RequiresGrad() : nullptr);
    RegisterParameter(kParamBiasName, elementwise_affine && bias
                                          ? Tensor::Zeros(normalized_shape_, dtype, device)->RequiresGrad()
                                          : nullptr);
}

TensorList LayerNorm::Forward(const TensorList &inputs) {
    CheckModuleInputs(*this, inputs, 1);
    return std::make_shared<autograd::LayerNorm>(eps_, normalized_shape_)
        ->Apply({inputs[0], parameter(kParamWeightName), parameter(kParamBiasName)});
}

std::string LayerNorm::ExtraRepr() const {
    return fmt::format("{}, eps={}, elementwise_affine={}, bias={}", FormatDims(normalized_shape_), eps_,
                       has_parameter(kParamWeightName), has_parameter(kParamBiasName));
}

RMSNorm::RMSNorm(int64_t normalized_size, double eps, bool elementwise_affine, Device device, DataType dtype)
    : CloneableModule(kType), normalized_size_(normalized_size), eps_(eps) {
    if (normalized_size < 1) {
        Throw<ValueError>("RMSNorm: expected a size of at least 1, got {}", normalized_size);
    }
    RegisterParameter(kParamWeightName,
                      elementwise_affine ? Tensor::Ones({normalized_size}, dtype, device)->RequiresGrad() : nullptr);
}

TensorList RMSNorm::Forward(const TensorList &inputs) {
    CheckModuleInputs(*this, inputs, 1);
    if (inputs[0]->NumDims() < 1 || inputs[0]->Dims().back() != normalized_size_) {
        Throw<ShapeError>("RMSNorm: expected (..., {}), got {}", normalized_size_, FormatDims(inputs[0]->Dims()));
    }
    return {function::RmsNorm(inputs[0], parameter(kParamWeightName), eps_)};
}

std::string RMSNorm::ExtraRepr() const {
    return fmt::format("{}, eps={}, elementwise_affine={}", normalized_size_, eps_, has_parameter(kParamWeightName));
}

}  // namespace infini_train::nn
