#include "infini_train/include/nn/modules/linear.h"

#include <cmath>
#include <memory>

#include "infini_train/include/autograd/linear.h"
#include "infini_train/include/nn/init.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/nn/inputs.h"

namespace infini_train::nn {

Linear::Linear(int64_t in_features, int64_t out_features, bool bias, Device device, DataType dtype)
    : CloneableModule(kType) {
    if (in_features < 1 || out_features < 1) {
        Throw<ValueError>("Linear: expected at least 1 feature in and out, got {} and {}", in_features, out_features);
    }
    const auto weight = Tensor::Empty({out_features, in_features}, dtype, device);
    // With this slope the bound is sqrt(3) sqrt(2 / 6) / sqrt(in) = 1 / sqrt(in).
    init::KaimingUniform(weight, std::sqrt(5.0));
    RegisterParameter(kParamWeightName, weight->RequiresGrad());
    if (!bias) {
        RegisterParameter(kParamBiasName, nullptr);
        return;
    }
    const double bound = 1.0 / std::sqrt(static_cast<double>(in_features));
    const auto values = init::Uniform(Tensor::Empty({out_features}, dtype, device), -bound, bound);
    RegisterParameter(kParamBiasName, values->RequiresGrad());
}

Linear::Linear(const TensorPtr &weight, const TensorPtr &bias) : CloneableModule(kType) {
    if (weight == nullptr) {
        throw ValueError("Linear: expected a weight, got null");
    }
    const auto &dims = weight->Dims();
    if (dims.size() != 2 || dims[0] < 1 || dims[1] < 1 || (bias != nullptr && bias->Dims() != std::vector{dims[0]})) {
        Throw<ShapeError>("Linear: expected a weight (out, in) and a bias (out), got {} and {}", FormatDims(dims),
                          bias != nullptr ? FormatDims(bias->Dims()) : "none");
    }
    RegisterParameter(kParamWeightName, weight);
    RegisterParameter(kParamBiasName, bias);
}

TensorList Linear::Forward(const TensorList &inputs) {
    CheckModuleInputs(*this, inputs, 1);
    const auto &weight = parameter(kParamWeightName);
    const auto &bias = parameter(kParamBiasName);
    const auto linear = std::make_shared<autograd::Linear>();
    return bias != nullptr ? linear->Apply({inputs[0], weight, bias}) : linear->Apply({inputs[0], weight});
}

int64_t Linear::in_features() const {
    return parameter(kParamWeightName)->Dim(1);
}

int64_t Linear::out_features() const {
    return parameter(kParamWeightName)->Dim(0);
}

std::string Linear::ExtraRepr() const {
    return fmt::format("in_features={}, out_features={}, bias={}", in_features(), out_features(),
                       has_parameter(kParamBiasName));
}

}  // namespace infini_train::nn
