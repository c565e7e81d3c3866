#pragma once

#include "infini_train/include/common/export.h"
#include "infini_train/include/tensor.h"

namespace infini_train::autograd {

/// A post-accumulate hook as a class, as InfiniTrain has it; see Tensor::RegisterPostAccumulateGradHook.
class INFINI_TRAIN_EXPORT PostAccumulateGradHook {
public:
    virtual ~PostAccumulateGradHook() = default;
    /// Called with the leaf whose gradient has just been accumulated.
    virtual void operator()(const TensorPtr &leaf) = 0;
};

}  // namespace infini_train::autograd
