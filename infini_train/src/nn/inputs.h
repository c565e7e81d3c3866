#pragma once

#include "infini_train/include/common/error.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/nn/modules/module.h"

#include "infini_train/src/common/format.h"

namespace infini_train::nn {

/// Throws ValueError unless a module was given `count` inputs, none of them null.
inline void CheckModuleInputs(const Module &module, const TensorList &inputs, size_t count) {
    if (inputs.size() != count) {
        Throw<ValueError>("{}: expected {} input{}, got {}", module.type(), count, count == 1 ? "" : "s",
                          inputs.size());
    }
    for (size_t i = 0; i < count; ++i) {
        if (inputs[i] == nullptr) {
            Throw<ValueError>("{}: input {} is null", module.type(), i);
        }
    }
}

}  // namespace infini_train::nn
