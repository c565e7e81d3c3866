#pragma once

#include <string>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/datatype.h"
#include "infini_train/include/device.h"
#include "infini_train/include/nn/modules/module.h"
#include "infini_train/include/nn/modules/transformer/transformer_config.h"

namespace infini_train::nn {

/// Attention of each position to itself and those before it, over several heads: (B, T, width) gives (B, T, width).
///
/// One matrix product makes queries, keys and values, `c_attn`, whose output holds the heads of the queries, those of
/// the keys and those of the values side by side; `c_proj` mixes what the heads found. Children besides: `rotary` for
/// rotary positions, `resid_dropout`.
///
/// Inputs {x, keys, values} go on after keys and values of earlier positions: views (B, kv_heads, P + T, head_size) of
/// a KeyValueCache whose first P positions are filled. The other T are written, unrecorded.
class INFINI_TRAIN_EXPORT CausalSelfAttention : public CloneableModule<CausalSelfAttention> {
public:
    static constexpr char kType[] = "CausalSelfAttention";
    static constexpr char kCAttnLayerName[] = "c_attn";
    static constexpr char kCProjLayerName[] = "c_proj";

    /// Matrices are normal at first, with config.init_std, biases 0; without `initialize` both are whatever the memory
    /// holds, for weights that are about to be loaded. Throws ValueError as TransformerConfig::Check does.
    explicit CausalSelfAttention(const TransformerConfig &config, Device device = {},
                                 DataType dtype = DataType::kFLOAT32, bool initialize = true);

    TensorList Forward(const TensorList &inputs) override;

protected:
    std::string ExtraRepr() const override;

private:
    void CheckInputs(const TensorList &inputs) const;

    const TransformerConfig config_;
};

}  // namespace infini_train::nn
