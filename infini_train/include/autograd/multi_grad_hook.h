#pragma once

#include <functional>
#include <memory>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/hook.h"
#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train::autograd {

/// One entry for each tensor of the registration. The gradients are the pass's own: Clone before changing one
/// (AutogradError otherwise).
using MultiGradHook = std::function<void(const TensorList &grads)>;

enum class MultiGradMode {
    kAll,  ///< once the gradients of all tensors that the pass comes to are known; null for the others
    kAny,  ///< as soon as the first gradient is known; null for all others
};

/// Calls `hook(grads)` once in each pass, of Backward and of Grad alike, that comes to one of `tensors`. It runs among
/// the hooks of the tensor whose gradient was waited for, and sees each gradient as the tensor's hooks that were
/// registered earlier have left it. Holds no tensor; one that requires no gradient stays null. Passes of several
/// threads keep their gradients apart, and may call the hook at the same time.
///
///     autograd::RegisterMultiGradHook({a, b}, [](const TensorList &grads) {
///         std::cout << *grads[0] << " and " << *grads[1] << '\n';
///     });
///
/// Throws ValueError for a null tensor or an empty hook, AutogradError if no tensor requires a gradient.
INFINI_TRAIN_EXPORT std::shared_ptr<HookHandle> RegisterMultiGradHook(const TensorList &tensors, MultiGradHook hook,
                                                                      MultiGradMode mode = MultiGradMode::kAll,
                                                                      const HookOptions &options = {});

}  // namespace infini_train::autograd
