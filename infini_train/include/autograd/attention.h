#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/core/generator.h"

namespace infini_train::autograd {

/// softmax(scale q k^T + mask) v of each head, where the softmax is over the keys (Vaswani et al., "Attention is all
/// you need", 2017). The matrix of T x S weights is never made, neither here nor in the backward pass: blocks of keys
/// go by, with a running maximum and sum (Dao et al., "FlashAttention", 2022).
///
/// Inputs are query (B, H, T, D), key (B, Hkv, S, D), value (B, Hkv, S, Dv) and, optionally or null, a mask that
/// broadcasts to (B, H, T, S). H is a multiple of Hkv, and query head h uses key head h / (H / Hkv). A mask of bool
/// says which keys a query may look at; one of the query's data type is added to the scores. `is_causal` hides key s
/// from query t where s > t + S - T, so that the last query sees all keys. A query that sees nothing gives zeros and
/// gradients of zero.
///
/// The output is (B, H, T, Dv) and lies in memory as (B, T, H, Dv): Transpose(1, 2) and a Reshape to (B, T, H * Dv)
/// make no copy. Inputs may have any strides; none is copied. Without a scale it is 1 / sqrt(D).
///
/// With `dropout_p` each weight becomes 0 with that probability, and what is kept is divided by 1 - dropout_p. The draw
/// is that of a Dropout of the (B, H, T, S) weights; no generator means DefaultGenerator().
///
/// A mask that requires a gradient gets one, for which, as for second derivatives, the weights are made after all.
///
/// Throws ShapeError, DtypeError (one floating-point type for query, key and value), DeviceError, and ValueError for a
/// probability outside of [0, 1].
class INFINI_TRAIN_EXPORT ScaledDotProductAttention : public Function {
public:
    static constexpr char kType[] = "ScaledDotProductAttention";

    explicit ScaledDotProductAttention(bool is_causal = false, double dropout_p = 0.0,
                                       std::optional<double> scale = std::nullopt, Generator *generator = nullptr);

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    TensorPtr KeepFactors(const TensorPtr &like) const;
    TensorPtr Weights(const TensorPtr &query, const TensorPtr &key, const TensorPtr &mask) const;
    TensorList ComposedBackward(const TensorPtr &grad, const TensorList &saved) const;

    const bool is_causal_;
    const double dropout_p_;
    const std::optional<double> given_scale_;
    Generator *const generator_;
    double scale_ = 1.0;
    Generator::State draw_;
    size_t num_inputs_ = 0;
    TensorPtr log_sums_;  // between Forward and SetupContext
};

}  // namespace infini_train::autograd
