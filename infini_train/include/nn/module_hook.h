#pragma once

#include <functional>

#include "infini_train/include/common/hook.h"
#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train::nn {

class Module;

/// Forward: the inputs. Backward: the gradients of the module's outputs, null where none arrived.
using ModulePreHook = std::function<void(Module *, const TensorList &)>;
/// Forward: inputs and outputs. Backward: the gradients of the module's inputs and of its outputs.
using ModulePostHook = std::function<void(Module *, const TensorList &, const TensorList &)>;

// As they are stored: what a hook returns replaces the first list (pre hooks), the outputs (forward post hooks) or the
// gradients of the inputs (backward post hooks).
using ModulePreHookFn = std::function<HookResult(Module *, const TensorList &)>;
using ModulePostHookFn = std::function<HookResult(Module *, const TensorList &, const TensorList &)>;

/// The hooks of one module, or of all of them. Shared with the graph, so that backward hooks run even when the module
/// is gone by then.
struct ModuleHooks {
    HookList<ModulePreHookFn> forward_pre;
    HookList<ModulePostHookFn> forward_post;
    HookList<ModulePreHookFn> backward_pre;
    HookList<ModulePostHookFn> backward_post;

    bool HasBackward() const { return !backward_pre.empty() || !backward_post.empty(); }
    bool HasAny() const { return HasBackward() || !forward_pre.empty() || !forward_post.empty(); }
};

/// The hooks that run for every module of the process, before the module's own.
INFINI_TRAIN_EXPORT ModuleHooks &GlobalModuleHooks();

namespace internal {
template <typename F>
ModulePreHookFn MakeModulePreHook(F &&hook) {
    return infini_train::internal::MakeListHook<Module *, const TensorList &>(std::forward<F>(hook));
}
template <typename F>
ModulePostHookFn MakeModulePostHook(F &&hook) {
    return infini_train::internal::MakeListHook<Module *, const TensorList &, const TensorList &>(
        std::forward<F>(hook));
}
}  // namespace internal

}  // namespace infini_train::nn
