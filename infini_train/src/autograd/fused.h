#pragma once

#include "infini_train/include/core/dispatcher.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/kernels/elementwise.h"
#include "infini_train/src/tensor/ref.h"

namespace infini_train::autograd {

/// A derivative in one kernel, from the output's gradient and the input or output. Not recorded.
inline TensorPtr FusedBackward(kernels::BinaryOp op, const TensorPtr &grad, const TensorPtr &kept) {
    auto result = Tensor::EmptyLike(kept);
    Dispatch<kernels::Binary>(kept->GetDevice(), Ref(result), Ref(*grad), Ref(*kept), op);
    return result;
}

}  // namespace infini_train::autograd
