#pragma once

#include <functional>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/hook.h"
#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train::autograd {

class Function;

/// Forward: the inputs. Backward: the gradients of the outputs, null where none arrived.
using FunctionPreHook = std::function<void(Function *, const TensorList &)>;
/// Forward: inputs and outputs. Backward: the gradients of the inputs and of the outputs.
using FunctionPostHook = std::function<void(Function *, const TensorList &, const TensorList &)>;

// As they are stored: what a hook returns replaces the first list (pre hooks), the outputs (forward post hooks) or the
// gradients of the inputs (backward post hooks).
using FunctionPreHookFn = std::function<HookResult(Function *, const TensorList &)>;
using FunctionPostHookFn = std::function<HookResult(Function *, const TensorList &, const TensorList &)>;

/// The hooks of one function, or of all of them.
struct FunctionHooks {
    HookList<FunctionPreHookFn> forward_pre;
    HookList<FunctionPostHookFn> forward_post;
    HookList<FunctionPreHookFn> backward_pre;
    HookList<FunctionPostHookFn> backward_post;

    bool HasForward() const { return !forward_pre.empty() || !forward_post.empty(); }
    bool HasBackward() const { return !backward_pre.empty() || !backward_post.empty(); }
};

/// Which functions the forward hooks of all functions see.
enum class FunctionDepth {
    kOutermost,  ///< not those that a function applies inside of its own Forward or Backward
    kAll,        ///< those too
};

/// The hooks that run for every function of the process, before the function's own. Backward hooks are in the first
/// lists only.
INFINI_TRAIN_EXPORT FunctionHooks &GlobalFunctionHooks(FunctionDepth depth = FunctionDepth::kOutermost);

namespace internal {
template <typename F>
FunctionPreHookFn MakeFunctionPreHook(F &&hook) {
    return infini_train::internal::MakeListHook<Function *, const TensorList &>(std::forward<F>(hook));
}
template <typename F>
FunctionPostHookFn MakeFunctionPostHook(F &&hook) {
    return infini_train::internal::MakeListHook<Function *, const TensorList &, const TensorList &>(
        std::forward<F>(hook));
}
}  // namespace internal

}  // namespace infini_train::autograd
