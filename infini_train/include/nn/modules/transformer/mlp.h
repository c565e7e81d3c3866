#pragma once

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/datatype.h"
#include "infini_train/include/device.h"
#include "infini_train/include/nn/modules/module.h"
#include "infini_train/include/nn/modules/transformer/transformer_config.h"

namespace infini_train::nn {

/// The part of a block that treats each position alone: (..., width) gives (..., width). By config.activation it is
/// c_proj(gelu(c_fc(x))) or c_proj(silu(c_gate(x)) * c_fc(x)), with a dropout at the end. Children: `c_gate` for
/// kSwiGLU, `c_fc`, `act`, `c_proj`, `dropout`.
class INFINI_TRAIN_EXPORT MLP : public CloneableModule<MLP> {
public:
    static constexpr char kType[] = "MLP";
    static constexpr char kCGateLayerName[] = "c_gate";
    static constexpr char kCFcLayerName[] = "c_fc";
    static constexpr char kActLayerName[] = "act";
    static constexpr char kCProjLayerName[] = "c_proj";

    /// First values and errors as in CausalSelfAttention.
    explicit MLP(const TransformerConfig &config, Device device = {}, DataType dtype = DataType::kFLOAT32,
                 bool initialize = true);

    TensorList Forward(const TensorList &inputs) override;

private:
    const bool gated_;
};

}  // namespace infini_train::nn
