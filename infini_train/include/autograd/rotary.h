#pragma once

#include <cstddef>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train::autograd {

/// Turns pairs of features by an angle that depends on the position (Su et al., "RoFormer", 2021): (a, b) becomes
/// (a cos - b sin, a sin + b cos).
///
/// Inputs are x (..., T, D) with an even D, and cos and sin (T, D / 2). If `interleaved`, pair i is the features
/// (2 i, 2 i + 1), as in llama2.c; otherwise (i, i + D / 2), as in Hugging Face's models. cos and sin have x's
/// floating-point type, or float32 for a 16-bit x. The output's dimensions lie in memory in the order of x's. Throws
/// ShapeError, DtypeError and DeviceError.
class INFINI_TRAIN_EXPORT RotaryEmbedding : public Function {
public:
    static constexpr char kType[] = "RotaryEmbedding";

    explicit RotaryEmbedding(bool interleaved = false) : RotaryEmbedding(interleaved, false) {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    // `inverse` turns the other way.
    RotaryEmbedding(bool interleaved, bool inverse) : Function(kType), interleaved_(interleaved), inverse_(inverse) {}
    TensorPtr TableGrad(size_t which, const TensorPtr &grad, const TensorPtr &x, const TensorPtr &table) const;

    const bool interleaved_;
    const bool inverse_;
};

}  // namespace infini_train::autograd
