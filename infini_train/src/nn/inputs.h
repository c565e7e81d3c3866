#pragma once

#include <cstddef>

#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/nn/modules/module.h"

#include "infini_train/src/autograd/operands.h"

namespace infini_train::nn {

/// CheckInputs of a module.
inline void CheckModuleInputs(const Module &module, const TensorList &inputs, size_t count) {
    autograd::CheckInputs(module.type().c_str(), inputs, count);
}

}  // namespace infini_train::nn
