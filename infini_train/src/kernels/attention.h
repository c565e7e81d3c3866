#pragma once

#include "infini_train/include/core/dispatcher.h"
#include "infini_train/include/core/generator.h"

#include "infini_train/src/kernels/tensor_ref.h"

namespace infini_train::kernels {

// Query, output and their gradients are (B, H, T, D or Dv), key, value and theirs (B, Hkv, S, D or Dv), H a multiple of
// Hkv, all of one floating-point type and of any strides. The mask is (B, H, T, S), stride 0 where it is broadcast:
// bool or of that type; null data means none. `log_sums` is (B, H, T) and contiguous, float64 for float64 and float32
// otherwise: for each query the logarithm of the sum of e^score, or infinity where it sees no key. 16-bit types are
// computed in float and rounded once. No result depends on the number of threads.

struct AttentionSettings {
    double scale = 1.0;
    bool is_causal = false;  // query t sees keys s <= t + S - T
    /// Weight i of the row-major order of (B, H, T, S) is dropped as element i is in DropoutForward (dropout.h), from
    /// `draw` on; what is kept is divided by 1 - dropout_p.
    double dropout_p = 0.0;
    Generator::State draw;
};

struct AttentionForward
    : KernelTag<void(TensorRef output, TensorRef log_sums, ConstTensorRef query, ConstTensorRef key,
                     ConstTensorRef value, ConstTensorRef mask, const AttentionSettings &settings)> {
    static constexpr const char *kName = "AttentionForward";
};

/// All three gradients.
struct AttentionBackward
    : KernelTag<void(TensorRef grad_query, TensorRef grad_key, TensorRef grad_value, ConstTensorRef grad_output,
                     ConstTensorRef output, ConstTensorRef log_sums, ConstTensorRef query, ConstTensorRef key,
                     ConstTensorRef value, ConstTensorRef mask, const AttentionSettings &settings)> {
    static constexpr const char *kName = "AttentionBackward";
};

}  // namespace infini_train::kernels
