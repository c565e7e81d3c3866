#pragma once

#include <memory>
#include <utility>

#include "infini_train/include/common/hook.h"
#include "infini_train/include/nn/module_hook.h"

namespace infini_train::utils {

/// Hooks that run for every module of the process, before the module's own. They take the same arguments in the same
/// order as those of one module, and may replace as those do.
///
///     auto handle = utils::GlobalModuleHookRegistry::Instance().RegisterModuleForwardHook(
///         [](nn::Module *module, const TensorList &inputs, const TensorList &outputs) { ... });
class GlobalModuleHookRegistry {
public:
    static GlobalModuleHookRegistry &Instance() {
        static GlobalModuleHookRegistry registry;
        return registry;
    }

    template <typename F>
    std::shared_ptr<HookHandle> RegisterModuleForwardPreHook(F &&hook, const HookOptions &options = {}) {
        return nn::GlobalModuleHooks().forward_pre.Add(nn::internal::MakeModulePreHook(std::forward<F>(hook)), options);
    }
    template <typename F>
    std::shared_ptr<HookHandle> RegisterModuleForwardHook(F &&hook, const HookOptions &options = {}) {
        return nn::GlobalModuleHooks().forward_post.Add(nn::internal::MakeModulePostHook(std::forward<F>(hook)),
                                                        options);
    }
    template <typename F>
    std::shared_ptr<HookHandle> RegisterModuleFullBackwardPreHook(F &&hook, const HookOptions &options = {}) {
        return nn::GlobalModuleHooks().backward_pre.Add(nn::internal::MakeModulePreHook(std::forward<F>(hook)),
                                                        options);
    }
    template <typename F>
    std::shared_ptr<HookHandle> RegisterModuleFullBackwardHook(F &&hook, const HookOptions &options = {}) {
        return nn::GlobalModuleHooks().backward_post.Add(nn::internal::MakeModulePostHook(std::forward<F>(hook)),
                                                         options);
    }

private:
    GlobalModuleHookRegistry() = default;
};

}  // namespace infini_train::utils
