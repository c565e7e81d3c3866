#pragma once

#include "infini_train/src/kernels/tensor_ref.h"

namespace infini_train::cpu {

int FindNonFiniteKernel(ConstTensorRef input);

}  // namespace infini_train::cpu
