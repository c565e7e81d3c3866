#pragma once

#include <cstdint>

#include "infini_train/include/core/dispatcher.h"

#include "infini_train/src/kernels/tensor_ref.h"

namespace infini_train::kernels {

/// What the class labels are like: how many count, and where the first one is that's neither a class nor ignored.
struct LabelSummary {
    int64_t num_counted = 0;
    int64_t bad_position = -1;  ///< -1: there is none
    int64_t bad_label = 0;
};

struct CrossEntropyOptions {
    int64_t ignore_index = -100;
    double label_smoothing = 0;
    double divisor = 1;  ///< of the sum over the rows, or of each gradient
};

// Logits are (rows, classes), labels (rows) of any integer data type; all tensors are contiguous. `lse` holds the
// logarithm of each row's sum of exponentials, in float64 for float64 and in float32 otherwise.

struct CheckLabels : KernelTag<LabelSummary(ConstTensorRef labels, int64_t num_classes, int64_t ignore_index)> {
    static constexpr const char *kName = "CheckLabels";
};

/// loss is (rows), or one element: the sum of all rows over the divisor. Ignored rows give 0.
struct CrossEntropyForward : KernelTag<void(TensorRef loss, TensorRef lse, ConstTensorRef logits, ConstTensorRef labels,
                                            const CrossEntropyOptions &options)> {
    static constexpr const char *kName = "CrossEntropyForward";
};
/// grad_logits = (exp(logits - lse) - target) * grad_loss / divisor, which may be the memory of logits; grad_loss is
/// (rows) or one element.
struct CrossEntropyBackward
    : KernelTag<void(TensorRef grad_logits, ConstTensorRef grad_loss, ConstTensorRef logits, ConstTensorRef lse,
                     ConstTensorRef labels, const CrossEntropyOptions &options)> {
    static constexpr const char *kName = "CrossEntropyBackward";
};
/// The distributions that labels stand for, (rows, classes): 1 - smoothing + smoothing / classes at the label,
/// smoothing / classes elsewhere. Ignored rows are 0, and so is their `weight` (rows), 1 / divisor elsewhere.
struct LabelDistributions
    : KernelTag<void(TensorRef targets, TensorRef weight, ConstTensorRef labels, const CrossEntropyOptions &options)> {
    static constexpr const char *kName = "LabelDistributions";
};

}  // namespace infini_train::kernels
