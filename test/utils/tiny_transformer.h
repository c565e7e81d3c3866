#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "infini_train/include/nn/modules/activations.h"
#include "infini_train/include/nn/modules/container.h"
#include "infini_train/include/nn/modules/linear.h"
#include "infini_train/include/nn/modules/normalization.h"
#include "infini_train/include/nn/modules/sparse.h"
#include "infini_train/include/tensor.h"

namespace infini_train::test {

/// Causal self-attention over (batch, sequence, width), with the heads side by side in the last dimension.
class TinyAttention : public nn::Module {
public:
    TinyAttention(int64_t width, int64_t heads) : Module("Attention"), heads_(heads) {
        qkv_ = RegisterModule("qkv", std::make_shared<nn::Linear>(width, 3 * width));
        mix_ = RegisterModule("mix", std::make_shared<nn::Linear>(width, width));
    }
    TensorList Forward(const TensorList &inputs) override {
        const int64_t batch = inputs[0]->Dim(0), length = inputs[0]->Dim(1), width = inputs[0]->Dim(2);
        const auto split = (*qkv_)(inputs)[0]->Split(width, 2);
        const auto by_head = [&](const TensorPtr &x) {
            return x->Reshape({batch, length, heads_, width / heads_})->Transpose(1, 2);
        };
        const auto scores = by_head(split[0])
                                ->Matmul(by_head(split[1])->Transpose(-1, -2))
                                ->Mul(1.0 / std::sqrt(static_cast<double>(width / heads_)));
        const auto future = Tensor::Ones({length, length})->Triu(1);
        const auto weights = scores->MaskedFill(future, -1e9)->Softmax(-1);
        return (*mix_)({weights->Matmul(by_head(split[2]))->Transpose(1, 2)->Reshape({batch, length, width})});
    }

private:
    const int64_t heads_;
    std::shared_ptr<nn::Linear> qkv_, mix_;
};

class TinyBlock : public nn::Module {
public:
    TinyBlock(int64_t width, int64_t heads) : Module("Block") {
        norm_ = RegisterModule("norm", std::make_shared<nn::LayerNorm>(width));
        attn_ = RegisterModule("attn", std::make_shared<TinyAttention>(width, heads));
        mlp_ = RegisterModule("mlp", std::make_shared<nn::Sequential>(std::make_shared<nn::Linear>(width, 2 * width),
                                                                      std::make_shared<nn::Gelu>(),
                                                                      std::make_shared<nn::Linear>(2 * width, width)));
    }
    TensorList Forward(const TensorList &inputs) override {
        const auto x = inputs[0]->Add((*attn_)((*norm_)(inputs))[0]);
        return {x->Add((*mlp_)({x})[0])};
    }

private:
    std::shared_ptr<nn::Module> norm_, attn_, mlp_;
};

/// Tokens (batch, sequence) to logits (batch, sequence, vocabulary): embed,
/// blocks.<i>.{norm,attn.{qkv,mix},mlp.{0,1,2}}, head.
class TinyTransformer : public nn::Module {
public:
    explicit TinyTransformer(int64_t vocabulary = 11, int64_t width = 8, int64_t heads = 2, int64_t blocks = 2)
        : Module("Transformer") {
        embed_ = RegisterModule("embed", std::make_shared<nn::Embedding>(vocabulary, width));
        blocks_ = RegisterModule("blocks", std::make_shared<nn::Sequential>());
        for (int64_t i = 0; i < blocks; ++i) {
            blocks_->Append(std::make_shared<TinyBlock>(width, heads));
        }
        head_ = RegisterModule("head", std::make_shared<nn::Linear>(width, vocabulary));
    }
    TensorList Forward(const TensorList &inputs) override { return (*head_)((*blocks_)((*embed_)(inputs))); }

private:
    std::shared_ptr<nn::Module> embed_, head_;
    std::shared_ptr<nn::Sequential> blocks_;
};

}  // namespace infini_train::test
