#pragma once

#include "infini_train/src/kernels/tensor_ref.h"

namespace infini_train::cuda {

/// The kernel of the tag EmbeddingBackward.
void RunEmbeddingBackward(TensorRef grad_weight, ConstTensorRef grad_output, ConstTensorRef index);

}  // namespace infini_train::cuda
