#include "infini_train/include/nn/modules/transformer/transformer.h"

#include <memory>

#include "infini_train/include/autograd/checkpoint.h"
#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/nn/modules/container.h"
#include "infini_train/include/nn/modules/dropout.h"
#include "infini_train/include/nn/modules/linear.h"
#include "infini_train/include/nn/modules/sparse.h"
#include "infini_train/include/nn/modules/transformer/causal_self_attention.h"
#include "infini_train/include/nn/modules/transformer/mlp.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/nn/inputs.h"
#include "infini_train/src/nn/transformer/layers.h"

namespace infini_train::nn {

TransformerBlock::TransformerBlock(const TransformerConfig &config, Device device, DataType dtype, bool initialize)
    : CloneableModule(kType) {
    config.Check();
    const PartOptions options{device, dtype, initialize};
    RegisterModule(kLn1LayerName, NewNorm(config, options));
    RegisterModule(kAttnLayerName, std::make_shared<CausalSelfAttention>(config, device, dtype, initialize));
    RegisterModule(kLn2LayerName, NewNorm(config, options));
    RegisterModule(kMlpLayerName, std::make_shared<MLP>(config, device, dtype, initialize));
}

TensorList TransformerBlock::Forward(const TensorList &inputs) {
    CheckModuleInputs(*this, inputs, inputs.size() == 3 ? 3 : 1);
    TensorList to_attention = inputs;
    to_attention[0] = (*module(kLn1LayerName))({inputs[0]})[0];
    const auto x = inputs[0]->Add((*module(kAttnLayerName))(to_attention)[0]);
    return {x->Add((*module(kMlpLayerName))((*module(kLn2LayerName))({x}))[0])};
}

Transformer::Transformer(const TransformerConfig &config, Device device, DataType dtype, bool initialize)
    : CloneableModule(kType), config_(config) {
    config.Check();
    const PartOptions options{device, dtype, initialize};
    const auto tokens = NewWeight(config.vocab_size, config.width, config.init_std, options);
    RegisterModule(kWTELayerName, std::make_shared<Embedding>(tokens));
    if (config.position == PositionType::kLearned) {
        const auto positions = NewWeight(config.context, config.width, config.init_std, options);
        RegisterModule(kWPELayerName, std::make_shared<Embedding>(positions));
    }
    RegisterModule(kDropLayerName, std::make_shared<Dropout>(config.dropout));
    const auto blocks = RegisterModule(kHLayerName, std::make_shared<ModuleList>());
    for (int64_t layer = 0; layer < config.layers; ++layer) {
        blocks->Append(std::make_shared<TransformerBlock>(config, device, dtype, initialize));
    }
    RegisterModule(kLnFLayerName, NewNorm(config, options));
    RegisterModule(kLMHeadLayerName, config.tied
                                         ? std::make_shared<Linear>(tokens)
                                         : NewLinear(config.width, config.vocab_size, false, config.init_std, options));
}

void Transformer::CheckIds(const TensorPtr &ids, int64_t first) const {
    if (ids->NumDims() != 2 || ids->Dim(1) < 1) {
        Throw<ShapeError>("Transformer: expected ids (batch, positions) of at least one position, got {}",
                          FormatDims(ids->Dims()));
    }
    if (config_.position == PositionType::kLearned && ids->Dim(1) > config_.context - first) {
        Throw<IndexError>("Transformer: expected at most {} positions, got {}", config_.context, first + ids->Dim(1));
    }
}

TensorPtr Transformer::Embed(const TensorPtr &ids, int64_t first) {
    auto x = (*module(kWTELayerName))({ids})[0];
    if (config_.position == PositionType::kLearned) {
        const auto positions = Tensor::Arange(first, first + ids->Dim(1), 1, DataType::kINT64, ids->GetDevice());
        x = x->Add((*module(kWPELayerName))({positions})[0]);
    }
    return (*module(kDropLayerName))({x})[0];
}

TensorList Transformer::Forward(const TensorList &inputs) {
    CheckModuleInputs(*this, inputs, 1);
    CheckIds(inputs[0], 0);
    TensorList x{Embed(inputs[0], 0)};
    for (const auto &[name, block] : module(kHLayerName)->NamedChildren()) {
        x = checkpoint_ ? autograd::Checkpoint(block, x) : (*block)(x);
    }
    return (*module(kLMHeadLayerName))((*module(kLnFLayerName))(x));
}

TensorPtr Transformer::Decode(const TensorPtr &ids, KeyValueCache *cache) {
    if (cache == nullptr) {
        throw ValueError("Transformer::Decode: expected a cache, got null");
    }
    CheckModuleInputs(*this, {ids}, 1);
    const int64_t past = cache->length(), length = ids->NumDims() > 0 ? ids->Dim(-1) : 0;
    CheckIds(ids, past);
    if (cache->layers() != config_.layers || cache->batch() != ids->Dim(0)) {
        Throw<ShapeError>("Transformer::Decode: expected a cache of {} layers and {} rows, got {} and {}",
                          config_.layers, ids->Dim(0), cache->layers(), cache->batch());
    }
    const autograd::NoGradGuard no_grad;
    auto x = Embed(ids, past);
    int64_t layer = 0;
    for (const auto &[name, block] : module(kHLayerName)->NamedChildren()) {
        x = (*block)({x, cache->Keys(layer, length), cache->Values(layer, length)})[0];
        ++layer;
    }
    const TensorList last{x->Narrow(1, length - 1, 1)};
    const auto logits = (*module(kLMHeadLayerName))((*module(kLnFLayerName))(last))[0];
    cache->Advance(length);
    return logits->View({ids->Dim(0), config_.vocab_size});
}

TensorList Transformer::DecayParameters() const {
    TensorList parameters = Parameters();
    std::erase_if(parameters, [](const TensorPtr &parameter) { return parameter->NumDims() < 2; });
    return parameters;
}

TensorList Transformer::NoDecayParameters() const {
    TensorList parameters = Parameters();
    std::erase_if(parameters, [](const TensorPtr &parameter) { return parameter->NumDims() >= 2; });
    return parameters;
}

std::string Transformer::ExtraRepr() const {
    return fmt::format("vocab_size={}, context={}, layers={}, heads={}, width={}", config_.vocab_size, config_.context,
                       config_.layers, config_.heads, config_.width);
}

}  // namespace infini_train::nn
