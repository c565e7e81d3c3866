#pragma once

#include <cstdint>
#include <memory>

#include "infini_train/include/autograd/checkpoint.h"
#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train::nn {

class Sequential;

/// The outputs of the modules one after the other, in `segments` parts of as equal a number as possible, each under
/// autograd::Checkpoint but the last, whose saved tensors the backward pass wants at once. With n modules of the same
/// size and about sqrt(n) segments the memory for saved tensors grows as sqrt(n). Hooks of the modules run, those of
/// the Sequential itself don't. Throws ValueError unless `segments` is between 1 and the number of modules.
INFINI_TRAIN_EXPORT TensorList CheckpointSequential(const std::shared_ptr<Sequential> &modules, int64_t segments,
                                                    const TensorList &inputs,
                                                    const autograd::CheckpointOptions &options = {});

}  // namespace infini_train::nn
