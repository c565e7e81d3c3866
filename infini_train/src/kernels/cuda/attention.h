#pragma once

#include "infini_train/src/kernels/attention.h"

namespace infini_train::cuda {

/// The kernels of the tags of kernels/attention.h.
void RunAttentionForward(TensorRef output, TensorRef statistics, ConstTensorRef query, ConstTensorRef key,
                         ConstTensorRef value, ConstTensorRef mask, const kernels::AttentionSettings &settings);
void RunAttentionBackward(TensorRef grad_query, TensorRef grad_key, TensorRef grad_value, ConstTensorRef grad_output,
                          ConstTensorRef output, ConstTensorRef statistics, ConstTensorRef query, ConstTensorRef key,
                          ConstTensorRef value, ConstTensorRef mask, const kernels::AttentionSettings &settings);

}  // namespace infini_train::cuda
