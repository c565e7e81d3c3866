#pragma once

#include <cstdint>
#include <string>

#include "infini_train/include/autograd/loss.h"
#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/nn/modules/module.h"

namespace infini_train::nn {

/// The cross-entropy of class labels under a softmax of logits.
///
/// Inputs: logits (N, C), (C) or (N, C, d1, ...) and integer labels (N), () or (N, d1, ...). Gives one element, or the
/// labels' dims for Reduction::kNone. Labels equal to `ignore_index` don't count. `label_smoothing` in [0, 1]
/// (ValueError) is the share of the uniform distribution in the target. A label that is no class is an IndexError.
class INFINI_TRAIN_EXPORT CrossEntropyLoss : public CloneableModule<CrossEntropyLoss> {
public:
    static constexpr char kType[] = "CrossEntropyLoss";

    explicit CrossEntropyLoss(Reduction reduction = Reduction::kMean, int64_t ignore_index = -100,
                              double label_smoothing = 0.0);

    TensorList Forward(const TensorList &inputs) override;

private:
    const Reduction reduction_;
    const int64_t ignore_index_;
    const double label_smoothing_;
};

/// The squared difference of an input and a target of the same dims: its mean, its sum, or element by element.
class INFINI_TRAIN_EXPORT MSELoss : public CloneableModule<MSELoss> {
public:
    static constexpr char kType[] = "MSELoss";

    explicit MSELoss(Reduction reduction = Reduction::kMean) : CloneableModule(kType), reduction_(reduction) {}

    TensorList Forward(const TensorList &inputs) override;

private:
    const Reduction reduction_;
};

}  // namespace infini_train::nn
