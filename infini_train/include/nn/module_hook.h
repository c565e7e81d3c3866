#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>

#include "infini_train/include/common/hook.h"
#include "infini_train/include/common/lazy.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/nn/state_dict.h"

namespace infini_train::nn {

class Module;
class PostAccumulateWatch;

/// Forward: the inputs. Backward: the gradients of the module's outputs, null where none arrived.
using ModulePreHook = std::function<void(Module *, const TensorList &)>;
/// Forward: inputs and outputs. Backward: the gradients of the module's inputs and of its outputs.
using ModulePostHook = std::function<void(Module *, const TensorList &, const TensorList &)>;
/// All there is to know is which module.
using ModuleHook = std::function<void(Module *)>;

// As they are stored: what a hook returns replaces the first list (pre hooks), the outputs (forward post hooks) or the
// gradients of the inputs (backward post hooks).
using ModulePreHookFn = std::function<HookResult(Module *, const TensorList &)>;
using ModulePostHookFn = std::function<HookResult(Module *, const TensorList &, const TensorList &)>;

/// On what a module saves and loads.
struct StateDictHooks {
    HookList<StateDictPreHook> save_pre;
    HookList<StateDictPostHook> save_post;
    HookList<LoadStateDictPreHook> load_pre;
    HookList<LoadStateDictPostHook> load_post;
};

/// On the gradients of a module's parameters. A copy has the same hooks, and watches nothing yet.
struct PostAccumulateHooks {
    PostAccumulateHooks() = default;
    PostAccumulateHooks(const PostAccumulateHooks &other) : hooks(other.hooks) {}
    PostAccumulateHooks &operator=(const PostAccumulateHooks &) = delete;

    HookList<ModuleHook> hooks;
    HookList<ModuleHook> watchers;  // of modules around this one: told of its calls, and of what is registered in it
    std::mutex mutex;               // guards `watch`
    std::shared_ptr<PostAccumulateWatch> watch;
};

/// The hooks of one module, or of all of them. Shared with the graph, so that backward hooks run even when the module
/// is gone by then.
struct ModuleHooks {
    HookList<ModulePreHookFn> forward_pre;
    HookList<ModulePostHookFn> forward_post;
    HookList<ModulePreHookFn> backward_pre;
    HookList<ModulePostHookFn> backward_post;
    infini_train::internal::Lazy<StateDictHooks> state_dict;
    infini_train::internal::Lazy<PostAccumulateHooks> post_accumulate;

    bool HasBackward() const { return !backward_pre.empty() || !backward_post.empty(); }
    bool IsWatched() const { return post_accumulate.Find() != nullptr && !post_accumulate.Find()->watchers.empty(); }
    /// Those that a call of the module has to do with.
    bool HasAny() const { return HasBackward() || !forward_pre.empty() || !forward_post.empty() || IsWatched(); }
};

/// The hooks that run for every module of the process, before the module's own.
INFINI_TRAIN_EXPORT ModuleHooks &GlobalModuleHooks();

// As they are stored: null leaves what is registered as it is, anything else takes its place.
using TensorRegistrationHookFn = std::function<TensorPtr(Module *, const std::string &name, const TensorPtr &)>;
using ModuleRegistrationHookFn =
    std::function<std::shared_ptr<Module>(Module *, const std::string &name, const std::shared_ptr<Module> &)>;

/// What runs whenever any module of the process registers a part.
struct RegistrationHooks {
    HookList<TensorRegistrationHookFn> parameter;
    HookList<TensorRegistrationHookFn> buffer;
    HookList<ModuleRegistrationHookFn> module;
};
INFINI_TRAIN_EXPORT RegistrationHooks &GlobalRegistrationHooks();

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
/// A callable over a module, a name and a `const Part &` that returns nothing or what takes the part's place.
template <typename Part, typename F>
std::function<Part(Module *, const std::string &, const Part &)> MakeRegistrationHook(F &&hook) {
    using Callable = std::decay_t<F>;
    static_assert(std::is_invocable_v<Callable &, Module *, const std::string &, const Part &>,
                  "a registration hook takes the module, the name and what is registered");
    if (infini_train::internal::IsNullCallable<Callable>(hook)) {
        throw ValueError("Hook: expected a callable, got an empty function");
    }
    if constexpr (std::is_void_v<std::invoke_result_t<Callable &, Module *, const std::string &, const Part &>>) {
        return [hook = Callable(std::forward<F>(hook))](Module *module, const std::string &name,
                                                        const Part &part) mutable -> Part {
            hook(module, name, part);
            return nullptr;
        };
    } else {
        return Callable(std::forward<F>(hook));
    }
}
}  // namespace internal

}  // namespace infini_train::nn
