#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "infini_train/include/nn/modules/module.h"

namespace infini_train::example {

/// The names that MakeModel knows.
const std::vector<std::string> &ModelNames();

/// A network from images (N, 1, rows, cols) to the logits of ten classes: `mlp` has one hidden layer of `hidden` units,
/// `mlp512` two of 512, `lenet` is LeNet-5 (LeCun et al., 1998) with ReLU and max pooling, for images of 28 x 28.
std::shared_ptr<nn::Module> MakeModel(const std::string &name, int64_t rows, int64_t cols, int64_t hidden);

}  // namespace infini_train::example
