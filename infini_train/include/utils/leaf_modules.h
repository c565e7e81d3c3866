#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "infini_train/include/common/export.h"
#include "infini_train/include/nn/modules/module.h"

namespace infini_train::utils {

/// Modules with their paths, as Module::NamedModules gives them.
using NamedModuleList = std::vector<std::pair<std::string, std::shared_ptr<nn::Module>>>;

/// The modules of a tree that have no children, in order of registration: its layers.
INFINI_TRAIN_EXPORT NamedModuleList LeafModules(nn::Module &root);

}  // namespace infini_train::utils
