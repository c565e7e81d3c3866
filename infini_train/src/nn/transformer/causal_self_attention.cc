#include "infini_train/include/nn/modules/transformer/causal_self_attention.h"

#include <memory>
#include <vector>

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/nn/functional.h"
#include "infini_train/include/nn/modules/dropout.h"
#include "infini_train/include/nn/modules/transformer/rotary_embedding.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/nn/inputs.h"
#include "infini_train/src/nn/transformer/layers.h"

namespace infini_train::nn {
namespace {

constexpr char kRotaryLayerName[] = "rotary";
constexpr char kDropoutLayerName[] = "resid_dropout";

// Writes the new positions behind those that are there and gives all.
const TensorPtr &WriteNew(const TensorPtr &all, int64_t past, const TensorPtr &fresh) {
    const autograd::NoGradGuard no_grad;
    all->Narrow(2, past, fresh->Dim(2))->Copy_(fresh);
    return all;
}

}  // namespace

CausalSelfAttention::CausalSelfAttention(const TransformerConfig &config, Device device, DataType dtype,
                                         bool initialize)
    : CloneableModule(kType), config_(config) {
    config.Check();
    const PartOptions options{device, dtype, initialize};
    const int64_t queries = config.heads * config.HeadSize(), pairs = 2 * config.KvHeads() * config.HeadSize();
    RegisterModule(kCAttnLayerName, NewLinear(config.width, queries + pairs, config.bias, config.init_std, options));
    RegisterModule(kCProjLayerName, NewLinear(queries, config.width, config.bias, ResidualStd(config), options));
    if (config.position == PositionType::kRotary) {
        const RotaryOptions rotary{config.rope_theta, config.rope_scaling};
        RegisterModule(kRotaryLayerName, std::make_shared<RotaryEmbedding>(config.HeadSize(), rotary));
    }
    RegisterModule(kDropoutLayerName, std::make_shared<Dropout>(config.dropout));
}

void CausalSelfAttention::CheckInputs(const TensorList &inputs) const {
    CheckModuleInputs(*this, inputs, inputs.size() == 3 ? 3 : 1);
    const auto &dims = inputs[0]->Dims();
    if (dims.size() != 3 || dims[2] != config_.width) {
        Throw<ShapeError>("CausalSelfAttention: expected (batch, positions, {}), got {}", config_.width,
                          FormatDims(dims));
    }
    for (size_t i = 1; i < inputs.size(); ++i) {
        const auto &all = inputs[i]->Dims();
        if (all.size() != 4 || all[0] != dims[0] || all[1] != config_.KvHeads() || all[2] < dims[1] ||
            all[3] != config_.HeadSize() || all != inputs[1]->Dims()) {
            Throw<ShapeError>("CausalSelfAttention: expected {} of ({}, {}, at least {}, {}), both the same, got {}",
                              i == 1 ? "keys" : "values", dims[0], config_.KvHeads(), dims[1], config_.HeadSize(),
                              FormatDims(all));
        }
    }
}

TensorList CausalSelfAttention::Forward(const TensorList &inputs) {
    CheckInputs(inputs);
    const int64_t batch = inputs[0]->Dim(0), length = inputs[0]->Dim(1);
    const int64_t heads = config_.heads, kv_heads = config_.KvHeads(), size = config_.HeadSize();
    const auto qkv = (*module(kCAttnLayerName))({inputs[0]})[0]->View({batch, length, heads + 2 * kv_heads, size});
    TensorList parts = function::Split(qkv, {heads, kv_heads, kv_heads}, 2);
    for (TensorPtr &part : parts) {
        part = part->Transpose(1, 2);
    }
    const bool has_past = inputs.size() == 3;
    const int64_t past = has_past ? inputs[1]->Dim(2) - length : 0;
    if (config_.position == PositionType::kRotary) {
        const auto turned =
            (*module(kRotaryLayerName))({parts[0], parts[1], Tensor::FromScalar(past, DataType::kINT64)});
        parts[0] = turned[0];
        parts[1] = turned[1];
    }
    if (has_past) {
        parts[1] = WriteNew(inputs[1], past, parts[1]);
        parts[2] = WriteNew(inputs[2], past, parts[2]);
    }
    function::AttentionOptions options;
    options.dropout_p = is_training() ? config_.dropout : 0.0;
    options.is_causal = true;
    const auto found = function::ScaledDotProductAttention(parts[0], parts[1], parts[2], options);
    const auto side_by_side = found->Transpose(1, 2)->Reshape({batch, length, heads * size});
    return (*module(kDropoutLayerName))((*module(kCProjLayerName))({side_by_side}));
}

std::string CausalSelfAttention::ExtraRepr() const {
    return fmt::format("heads={}, kv_heads={}, head_size={}, dropout={}", config_.heads, config_.KvHeads(),
                       config_.HeadSize(), config_.dropout);
}

}  // namespace infini_train::nn
