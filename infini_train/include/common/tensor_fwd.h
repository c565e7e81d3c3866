#pragma once

#include <memory>
#include <vector>

namespace infini_train {

class Tensor;

/// Tensors are always handled through shared pointers.
using TensorPtr = std::shared_ptr<Tensor>;
/// The inputs or outputs of a function or module, or their gradients. In a list of gradients null stands for zero.
using TensorList = std::vector<std::shared_ptr<Tensor>>;

}  // namespace infini_train
