#include "infini_train/include/nn/modules/loss.h"

#include <memory>

#include "infini_train/src/common/format.h"
#include "infini_train/src/nn/inputs.h"

namespace infini_train::nn {

CrossEntropyLoss::CrossEntropyLoss(Reduction reduction, int64_t ignore_index, double label_smoothing)
    : CloneableModule(kType), reduction_(reduction), ignore_index_(ignore_index), label_smoothing_(label_smoothing) {
    if (!(label_smoothing >= 0 && label_smoothing <= 1)) {
        Throw<ValueError>("CrossEntropyLoss: expected a label_smoothing in [0, 1], got {}", label_smoothing);
    }
}

TensorList CrossEntropyLoss::Forward(const TensorList &inputs) {
    CheckModuleInputs(*this, inputs, 2);
    return std::make_shared<autograd::CrossEntropy>(ignore_index_, label_smoothing_, reduction_)->Apply(inputs);
}

TensorList MSELoss::Forward(const TensorList &inputs) {
    CheckModuleInputs(*this, inputs, 2);
    return {autograd::MseLoss(inputs[0], inputs[1], reduction_)};
}

}  // namespace infini_train::nn
