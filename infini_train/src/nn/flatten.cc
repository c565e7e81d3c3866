#include "infini_train/include/nn/modules/flatten.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/nn/inputs.h"

namespace infini_train::nn {

TensorList Flatten::Forward(const TensorList &inputs) {
    CheckModuleInputs(*this, inputs, 1);
    return {inputs[0]->Flatten(start_dim_, end_dim_)};
}

std::string Flatten::ExtraRepr() const {
    return fmt::format("start_dim={}, end_dim={}", start_dim_, end_dim_);
}

}  // namespace infini_train::nn
