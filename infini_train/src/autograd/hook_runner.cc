#include "infini_train/src/autograd/hook_runner.h"

#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/meta.h"

namespace infini_train::autograd {

void CheckReplacement(const TensorList &replacement, const TensorList &current, bool gradients,
                      const std::function<std::string()> &who) {
    if (replacement.size() != current.size()) {
        Throw<AutogradError>("{}: expected {} tensor{} in place of those it was given, got {}", who(), current.size(),
                             current.size() == 1 ? "" : "s", replacement.size());
    }
    for (size_t i = 0; i < current.size(); ++i) {
        const Tensor *given = current[i].get();
        const Tensor *returned = replacement[i].get();
        if (!gradients) {
            if (returned == nullptr && given != nullptr) {
                Throw<AutogradError>("{}: tensor {} of the replacement is null", who(), i);
            }
        } else if (returned != nullptr && given != nullptr && returned != given) {
            CheckGradient(*returned, given->Dims(), given->Dtype(), given->GetDevice(), "a gradient", who);
        }
    }
}

}  // namespace infini_train::autograd
