#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/nn/modules/linear.h"
#include "infini_train/include/nn/modules/module.h"
#include "infini_train/include/nn/modules/transformer/transformer_config.h"

namespace infini_train::nn {

/// Where the parameters of a Transformer's part are, of which type, and whether they get values.
struct PartOptions {
    Device device;
    DataType dtype = DataType::kFLOAT32;
    bool initialize = true;
};

/// A matrix or table of normal numbers, or of none yet.
TensorPtr NewWeight(int64_t rows, int64_t columns, double std, const PartOptions &options);
/// A Linear with a NewWeight and, if asked for, biases of 0.
std::shared_ptr<Linear> NewLinear(int64_t in, int64_t out, bool bias, double std, const PartOptions &options);
/// LayerNorm or RMSNorm over config.width.
std::shared_ptr<Module> NewNorm(const TransformerConfig &config, const PartOptions &options);
/// The standard deviation of a projection into the residual: with it, the sum over all 2 layers of them starts with the
/// variance of one (Radford et al., "Language models are unsupervised multitask learners", 2019).
double ResidualStd(const TransformerConfig &config);

}  // namespace infini_train::nn
