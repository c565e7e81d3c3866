#pragma once

#include "infini_train/src/kernels/tensor_ref.h"

namespace infini_train::cuda {

/// The kernel of the tag Copy.
void CopyKernel(TensorRef output, ConstTensorRef input);

}  // namespace infini_train::cuda
