#pragma once

#include <cstdint>
#include <string>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/datatype.h"
#include "infini_train/include/device.h"
#include "infini_train/include/nn/modules/module.h"

namespace infini_train::nn {

struct MultiHeadAttentionOptions {
    int64_t kv_heads = 0;     ///< heads of keys and values, each for heads / kv_heads queries; 0: as many as heads
    int64_t head_size = 0;    ///< 0: width / heads
    int64_t key_width = 0;    ///< the width of the second input; 0: as the first
    int64_t value_width = 0;  ///< that of the third; 0: as the second
    bool bias = true;
    bool is_causal = false;  ///< query t of T sees the keys up to t + S - T
    double dropout = 0.0;    ///< of the weights, in training
};

/// Attention over several heads (Vaswani et al., "Attention is all you need", 2017), from one sequence to itself or to
/// another. Inputs are queries (B, T, width) and, optional or null, keys (B, S, key_width), values (B, S, value_width)
/// and a mask that broadcasts to (B, heads, T, S): bool (true: may look) or numbers that are added to the scores. Keys
/// that aren't given are the queries, values that aren't given are the keys. Gives (B, T, width).
///
///     auto y = (*attention)({x})[0];                           // of x to itself
///     auto z = (*attention)({x, memory})[0];                   // of x to memory
///     auto w = (*attention)({x, nullptr, nullptr, mask})[0];   // of x to what the mask allows
///
/// Children: `q_proj`, `k_proj`, `v_proj`, `out_proj`, whose weights are XavierUniform and whose biases are 0 at first.
/// Throws ValueError for sizes below 1, heads that don't divide the width or aren't a multiple of kv_heads, and a
/// probability outside of [0, 1]. CausalSelfAttention is the faster form for a language model.
class INFINI_TRAIN_EXPORT MultiHeadAttention : public CloneableModule<MultiHeadAttention> {
public:
    static constexpr char kType[] = "MultiHeadAttention";

    MultiHeadAttention(int64_t width, int64_t heads, const MultiHeadAttentionOptions &options = {}, Device device = {},
                       DataType dtype = DataType::kFLOAT32);

    TensorList Forward(const TensorList &inputs) override;

    int64_t heads() const { return heads_; }
    const MultiHeadAttentionOptions &options() const { return options_; }

protected:
    std::string ExtraRepr() const override;

private:
    TensorPtr ByHead(const char *projection, const TensorPtr &input, int64_t heads) const;

    const int64_t heads_;
    MultiHeadAttentionOptions options_;  // without zeros
};

}  // namespace infini_train::nn
