#pragma once

#include <memory>
#include <utility>

#include "infini_train/include/autograd/function_hook.h"
#include "infini_train/include/common/hook.h"

namespace infini_train::utils {

/// Hooks that run for every autograd function of the process, before the function's own: operators, functions of users,
/// and backward also the accumulation into leaves (`AccumulateGrad`). They take the same arguments in the same order as
/// those of one function, and may replace as those do. The identities around a module with backward hooks are functions
/// too. What a function applies inside of its own Forward or Backward is seen with FunctionDepth::kAll only, before the
/// hooks that don't see it.
///
///     auto handle = utils::GlobalFunctionHookRegistry::Instance().RegisterFunctionForwardHook(
///         [](autograd::Function *function, const TensorList &inputs, const TensorList &outputs) { ... });
class GlobalFunctionHookRegistry {
public:
    using FunctionDepth = autograd::FunctionDepth;

    static GlobalFunctionHookRegistry &Instance() {
        static GlobalFunctionHookRegistry registry;
        return registry;
    }

    template <typename F>
    std::shared_ptr<HookHandle> RegisterFunctionForwardPreHook(F &&hook, const HookOptions &options = {},
                                                               FunctionDepth depth = FunctionDepth::kOutermost) {
        return autograd::GlobalFunctionHooks(depth).forward_pre.Add(
            autograd::internal::MakeFunctionPreHook(std::forward<F>(hook)), options);
    }
    template <typename F>
    std::shared_ptr<HookHandle> RegisterFunctionForwardHook(F &&hook, const HookOptions &options = {},
                                                            FunctionDepth depth = FunctionDepth::kOutermost) {
        return autograd::GlobalFunctionHooks(depth).forward_post.Add(
            autograd::internal::MakeFunctionPostHook(std::forward<F>(hook)), options);
    }
    template <typename F>
    std::shared_ptr<HookHandle> RegisterFunctionBackwardPreHook(F &&hook, const HookOptions &options = {}) {
        return autograd::GlobalFunctionHooks().backward_pre.Add(
            autograd::internal::MakeFunctionPreHook(std::forward<F>(hook)), options);
    }
    template <typename F>
    std::shared_ptr<HookHandle> RegisterFunctionBackwardHook(F &&hook, const HookOptions &options = {}) {
        return autograd::GlobalFunctionHooks().backward_post.Add(
            autograd::internal::MakeFunctionPostHook(std::forward<F>(hook)), options);
    }

private:
    GlobalFunctionHookRegistry() = default;
};

}  // namespace infini_train::utils
