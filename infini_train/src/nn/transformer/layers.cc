#include "infini_train/src/nn/transformer/layers.h"

#include <cmath>

#include "infini_train/include/nn/init.h"
#include "infini_train/include/nn/modules/normalization.h"
#include "infini_train/include/tensor.h"

namespace infini_train::nn {

TensorPtr NewWeight(int64_t rows, int64_t columns, double std, const PartOptions &options) {
    const auto weight = Tensor::Empty({rows, columns}, options.dtype, options.device);
    if (options.initialize) {
        init::Normal(weight, 0.0, std);
    }
    return weight->RequiresGrad();
}

std::shared_ptr<Linear> NewLinear(int64_t in, int64_t out, bool bias, double std, const PartOptions &options) {
    const auto weight = NewWeight(out, in, std, options);
    return std::make_shared<Linear>(
        weight, bias ? Tensor::Zeros({out}, options.dtype, options.device)->RequiresGrad() : nullptr);
}

std::shared_ptr<Module> NewNorm(const TransformerConfig &config, const PartOptions &options) {
    if (config.norm == NormType::kRMSNorm) {
        return std::make_shared<RMSNorm>(config.width, config.eps, true, options.device, options.dtype);
    }
    return std::make_shared<LayerNorm>(config.width, config.eps, true, config.bias, options.device, options.dtype);
}

double ResidualStd(const TransformerConfig &config) {
    return config.init_std / std::sqrt(2.0 * static_cast<double>(config.layers));
}

}  // namespace infini_train::nn
