#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train::nn {

class Module;

/// Parameters and buffers by their path in the tree of modules, `blocks.0.fc.weight`.
using StateDict = std::map<std::string, TensorPtr>;

/// What LoadStateDict didn't find a counterpart for.
struct LoadReport {
    std::vector<std::string> missing;     ///< in the module but not in the state dict
    std::vector<std::string> unexpected;  ///< in the state dict but not in the module
};

// Hooks on saving and loading; see Module. `prefix` is what the names of the module's own tensors begin with in the
// state dict that is at work: empty for the module that was asked, else its path and a dot, `blocks.0.fc.`.
using StateDictPreHook = std::function<void(Module *, const std::string &prefix)>;
using StateDictPostHook = std::function<void(Module *, StateDict &state, const std::string &prefix)>;
using LoadStateDictPreHook = std::function<void(Module *, StateDict &state, const std::string &prefix)>;
using LoadStateDictPostHook = std::function<void(Module *, LoadReport &report, const std::string &prefix)>;

}  // namespace infini_train::nn
