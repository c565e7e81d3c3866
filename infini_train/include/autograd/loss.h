#pragma once

#include <cstdint>
#include <vector>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train {

/// What becomes of the losses of single samples.
enum class Reduction { kNone, kMean, kSum };

namespace autograd {

using infini_train::Reduction;

/// The cross-entropy of class labels under a softmax of logits, in one step.
///
/// Inputs are logits (N, C), (C) or (N, C, d1, ...) of a floating-point type, and labels (N), () or (N, d1, ...) of any
/// integer type. Gives one element, or the labels' dims for Reduction::kNone. Labels equal to `ignore_index` count
/// neither in the sum nor in the mean (NaN if none are left). `label_smoothing` s in [0, 1] (ValueError) mixes
/// the label with the uniform distribution, (1 - s) to s. Throws IndexError for a label that is no class, ShapeError,
/// DtypeError.
class INFINI_TRAIN_EXPORT CrossEntropy : public Function {
public:
    static constexpr char kType[] = "CrossEntropy";

    explicit CrossEntropy(int64_t ignore_index = -100, double label_smoothing = 0.0,
                          Reduction reduction = Reduction::kMean);

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    TensorPtr ComposedBackward(const TensorPtr &grad, const TensorPtr &logits, const TensorPtr &labels) const;

    const int64_t ignore_index_;
    const double label_smoothing_;
    const Reduction reduction_;
    double divisor_ = 1;
    TensorPtr lse_;  // between Forward and SetupContext
};

/// The squared difference of two tensors of the same dims (ShapeError): its mean, sum, or element by element.
INFINI_TRAIN_EXPORT TensorPtr MseLoss(const TensorPtr &input, const TensorPtr &target,
                                      Reduction reduction = Reduction::kMean);

}  // namespace autograd
}  // namespace infini_train
