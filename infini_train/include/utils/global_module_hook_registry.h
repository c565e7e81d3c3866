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

    /// `hook(module, name, parameter)` runs when `module` is about to register a parameter; a tensor that it returns is
    /// registered instead (null: unchanged). Names alone, with a null parameter, don't count. The module may still be
    /// under construction: its type, and what it has registered so far, are there. What Clone copies and
    /// `*module->mutable_parameter(name) = ...` are no registrations.
    template <typename F>
    std::shared_ptr<HookHandle> RegisterParameterRegistrationHook(F &&hook, const HookOptions &options = {}) {
        return nn::GlobalRegistrationHooks().parameter.Add(
            nn::internal::MakeRegistrationHook<TensorPtr>(std::forward<F>(hook)), options);
    }
    /// The same for buffers.
    template <typename F>
    std::shared_ptr<HookHandle> RegisterBufferRegistrationHook(F &&hook, const HookOptions &options = {}) {
        return nn::GlobalRegistrationHooks().buffer.Add(
            nn::internal::MakeRegistrationHook<TensorPtr>(std::forward<F>(hook)), options);
    }
    /// The same for modules: `hook(module, name, child)`. What takes the child's place must be of the type that the
    /// module asked for (ValueError).
    template <typename F>
    std::shared_ptr<HookHandle> RegisterModuleRegistrationHook(F &&hook, const HookOptions &options = {}) {
        return nn::GlobalRegistrationHooks().module.Add(
            nn::internal::MakeRegistrationHook<std::shared_ptr<nn::Module>>(std::forward<F>(hook)), options);
    }

private:
    GlobalModuleHookRegistry() = default;
};

}  // namespace infini_train::utils
