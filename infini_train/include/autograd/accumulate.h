#pragma once

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train::autograd {

/// The end of the graph at a leaf: adds what arrives to the leaf's grad(), then runs its post-accumulate hooks. The
/// graph holds it, and it holds the leaf; the leaf knows it weakly. Its own hooks (RegisterBackwardPreHook,
/// ...PostHook) run before the accumulation and after everything.
class INFINI_TRAIN_EXPORT AccumulateGrad : public Function {
public:
    static constexpr char kType[] = "AccumulateGrad";

    explicit AccumulateGrad(TensorPtr leaf);
    const TensorPtr &leaf() const { return leaf_; }

    /// Throws AutogradError: it is made by the graph, never applied.
    TensorList Forward(const TensorList &inputs) override;
    /// Null leaves the leaf alone.
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    TensorPtr leaf_;
};

}  // namespace infini_train::autograd
