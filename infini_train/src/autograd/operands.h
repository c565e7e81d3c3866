#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "infini_train/include/common/error.h"
#include "infini_train/include/common/tensor_fwd.h"

#include "infini_train/src/tensor/shape.h"

namespace infini_train::autograd {

/// CheckOperands, and ValueError unless there are `min` to `max` inputs.
inline void CheckInputs(const char *name, const TensorList &inputs, size_t min, size_t max) {
    if (inputs.size() < min || inputs.size() > max) {
        const std::string wanted =
            min == max ? std::to_string(min) : std::to_string(min) + " to " + std::to_string(max);
        throw ValueError(std::string(name) + ": expected " + wanted + " input" + (max == 1 ? "" : "s") + ", got " +
                         std::to_string(inputs.size()));
    }
    CheckOperands(name, inputs);
}
inline void CheckInputs(const char *name, const TensorList &inputs, size_t count) {
    CheckInputs(name, inputs, count, count);
}

/// `dim` counted from the front; also ShapeError for a tensor without dimensions.
int64_t RealDim(int64_t dim, const Tensor &tensor, const char *name);

}  // namespace infini_train::autograd
