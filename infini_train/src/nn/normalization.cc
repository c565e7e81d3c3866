#include "infini_train/include/nn/modules/normalization.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "infini_train/include/autograd/normalization.h"

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

}  // namespace infini_train::nn
