#include "infini_train/src/autograd/hook_runner.h"

#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/meta.h"

namespace infini_train::autograd {

void CheckReplacement(const TensorList &replacement, const TensorList &current, bool gradients,
                      const std::string &who) {
    if (replacement.size() != current.size()) {
        Throw<AutogradError>("{}: expected {} tensor{} in place of those it was given, got {}", who, current.size(),
                             current.size() == 1 ? "" : "s", replacement.size());
    }
    for (size_t i = 0; i < current.size(); ++i) {
        if (replacement[i] == nullptr) {
            if (!gradients && current[i] != nullptr) {
                Throw<AutogradError>("{}: tensor {} of the replacement is null", who, i);
            }
        } else if (current[i] != nullptr) {
            const std::string what = fmt::format("{} {}", gradients ? "gradient" : "tensor", i);
            if (gradients) {
                CheckGradient(*replacement[i], current[i]->Dims(), current[i]->Dtype(), current[i]->GetDevice(),
                              what.c_str(), who);
            }
        }
    }
}

}  // namespace infini_train::autograd
