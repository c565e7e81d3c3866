#include "infini_train/include/nn/modules/dropout.h"

#include "infini_train/include/autograd/dropout.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/nn/inputs.h"

namespace infini_train::nn {

Dropout::Dropout(double p) : CloneableModule(kType), p_(p) {
    if (!(p >= 0 && p <= 1)) {
        Throw<ValueError>("Dropout: expected a probability in [0, 1], got {}", p);
    }
}

TensorList Dropout::Forward(const TensorList &inputs) {
    CheckModuleInputs(*this, inputs, 1);
    return {autograd::Dropout::Run(inputs[0], p_, is_training())};
}

std::string Dropout::ExtraRepr() const {
    return fmt::format("p={}", p_);
}

}  // namespace infini_train::nn
