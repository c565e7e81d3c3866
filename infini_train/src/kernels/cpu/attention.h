#pragma once

#include "infini_train/src/kernels/attention.h"

namespace infini_train::cpu {

/// What kernels::AttentionForward and AttentionBackward are given; tensors that only one of them has are null in the
/// other.
struct AttentionOperands {
    ConstTensorRef query, key, value, mask;
    kernels::AttentionSettings settings;
    TensorRef output, log_sums;  // written by the forward pass, read by the backward pass
    ConstTensorRef grad_output;
    TensorRef grad_query, grad_key, grad_value;
};

// Computed in float (also for 16-bit types) or double; no tensor is empty.
void AttentionForwardFloat(const AttentionOperands &x);
void AttentionForwardDouble(const AttentionOperands &x);
void AttentionBackwardFloat(const AttentionOperands &x);
void AttentionBackwardDouble(const AttentionOperands &x);

}  // namespace infini_train::cpu
