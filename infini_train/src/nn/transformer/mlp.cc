#include "infini_train/include/nn/modules/transformer/mlp.h"

#include <memory>

#include "infini_train/include/nn/modules/activations.h"
#include "infini_train/include/nn/modules/dropout.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/nn/inputs.h"
#include "infini_train/src/nn/transformer/layers.h"

namespace infini_train::nn {
namespace {

constexpr char kDropoutLayerName[] = "dropout";

}  // namespace

MLP::MLP(const TransformerConfig &config, Device device, DataType dtype, bool initialize)
    : CloneableModule(kType), gated_(config.activation == MLPType::kSwiGLU) {
    config.Check();
    const PartOptions options{device, dtype, initialize};
    const int64_t width = config.width, hidden = config.Hidden();
    if (gated_) {
        RegisterModule(kCGateLayerName, NewLinear(width, hidden, config.bias, config.init_std, options));
    }
    RegisterModule(kCFcLayerName, NewLinear(width, hidden, config.bias, config.init_std, options));
    if (gated_) {
        RegisterModule(kActLayerName, std::make_shared<SwiGLU>());
    } else {
        RegisterModule(kActLayerName, std::make_shared<NewGELU>());
    }
    RegisterModule(kCProjLayerName, NewLinear(hidden, width, config.bias, ResidualStd(config), options));
    RegisterModule(kDropoutLayerName, std::make_shared<Dropout>(config.dropout));
}

TensorList MLP::Forward(const TensorList &inputs) {
    CheckModuleInputs(*this, inputs, 1);
    TensorList hidden;
    if (gated_) {
        hidden.push_back((*module(kCGateLayerName))(inputs)[0]);
    }
    hidden.push_back((*module(kCFcLayerName))(inputs)[0]);
    return (*module(kDropoutLayerName))((*module(kCProjLayerName))((*module(kActLayerName))(hidden)));
}

}  // namespace infini_train::nn
