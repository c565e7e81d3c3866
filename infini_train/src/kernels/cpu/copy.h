#pragma once

#include "infini_train/src/kernels/tensor_ref.h"

namespace infini_train::cpu {

/// The kernel of kernels::Copy.
void CopyKernel(TensorRef output, ConstTensorRef input);

}  // namespace infini_train::cpu
