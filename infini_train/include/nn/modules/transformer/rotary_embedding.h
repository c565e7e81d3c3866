#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/nn/modules/module.h"
#include "infini_train/include/nn/modules/transformer/transformer_config.h"

namespace infini_train::nn {

struct RotaryOptions {
    double theta = 10000.0;
    RopeScaling scaling;
    /// The pairs that are turned: elements 2i and 2i + 1 as in llama2.c, otherwise i and i + head_size / 2 as in
    /// Hugging Face's LLaMA.
    bool interleaved = false;

    friend bool operator==(const RotaryOptions &, const RotaryOptions &) = default;
};

/// Rotary positions (Su et al., "RoFormer", arXiv:2104.09864): at position p the pair i of a head of D elements is
/// turned by the angle p theta^(-2i / D), so that the product of a query and a key depends on their distance.
///
/// One or more tensors (..., T, D) give as many of the same dims. A last input that is an integer of no dimensions says
/// where the first of the T positions stands; 0 without it. The cosines and sines are no buffers: they are computed in
/// double precision, kept in float32 (float64 for such inputs), and shared by all modules with the same options.
/// Throws ValueError for an odd head size.
class INFINI_TRAIN_EXPORT RotaryEmbedding : public CloneableModule<RotaryEmbedding> {
public:
    static constexpr char kType[] = "RotaryEmbedding";

    explicit RotaryEmbedding(int64_t head_size, const RotaryOptions &options = {});

    TensorList Forward(const TensorList &inputs) override;

    const RotaryOptions &options() const { return options_; }

protected:
    std::string ExtraRepr() const override;

private:
    struct Tables;
    static std::shared_ptr<Tables> TablesFor(int64_t head_size, const RotaryOptions &options);
    TensorPtr Rotate(const TensorPtr &x, int64_t first) const;

    const int64_t head_size_;
    const RotaryOptions options_;
    std::shared_ptr<Tables> tables_;
};

}  // namespace infini_train::nn
