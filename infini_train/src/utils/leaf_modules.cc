#include "infini_train/include/utils/leaf_modules.h"

namespace infini_train::utils {

NamedModuleList LeafModules(nn::Module &root) {
    NamedModuleList leaves;
    for (auto &named : root.NamedModules()) {
        if (named.second->NamedChildren().empty()) {
            leaves.push_back(std::move(named));
        }
    }
    return leaves;
}

}  // namespace infini_train::utils
