#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "infini_train/include/common/error.h"
#include "infini_train/include/common/tensor_fwd.h"

#include "infini_train/src/tensor/shape.h"

namespace infini_train::autograd {

/// CheckOperands, and ValueError for another number of inputs than `count`.
inline void CheckInputs(const char *name, const TensorList &inputs, size_t count) {
    if (inputs.size() != count) {
        throw ValueError(std::string(name) + ": expected " + std::to_string(count) + " input" +
                         (count == 1 ? "" : "s") + ", got " + std::to_string(inputs.size()));
    }
    CheckOperands(name, inputs);
}

/// `dim` counted from the front; also ShapeError for a tensor without dimensions.
int64_t RealDim(int64_t dim, const Tensor &tensor, const char *name);

}  // namespace infini_train::autograd
