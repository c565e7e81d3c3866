#pragma once

#include <cstdint>
#include <vector>

#include "infini_train/include/tensor.h"

namespace infini_train {

/// An uninitialised tensor on the CPU that `device` copies from and to on its own, or a plain one where that gains
/// nothing.
TensorPtr EmptyPinned(const std::vector<int64_t> &dims, DataType dtype, Device device);

}  // namespace infini_train
