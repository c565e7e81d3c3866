#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/hook.h"
#include "infini_train/include/nn/modules/module.h"

namespace infini_train::utils {

/// Modules by their path below the module at which the search began, as Module::NamedModules gives them.
using NamedModuleList = std::vector<std::pair<std::string, std::shared_ptr<nn::Module>>>;

/// Which modules of a tree. Most often a pattern over their paths:
///
///     *           any text within one name                    blocks.*.attn
///     ?  [a-c] [!a]   one character, one of these, none of these  conv[12]
///     **          any number of names, also none              **.fc   blocks.**
///     {a,b}       either                                      blocks.*.{attn,mlp}
///     :Type       of that type (as type() says), a pattern, too  :Linear   blocks.**:*Norm
///
/// A path is the names from the root on, joined by dots; that of the root is empty, so `**` includes it and `*`, the
/// root's children, doesn't. Of several patterns each adds modules, and those that begin with `!` take some away:
/// `{"blocks.**", "!**:Dropout"}`. A pattern that matches nothing is an error, unless Optional() is said.
class INFINI_TRAIN_EXPORT ModuleSelector {
public:
    using Predicate = std::function<bool(const std::string &path, const nn::Module &module)>;

    /// Throws ValueError for a malformed pattern.
    ModuleSelector(const char *pattern);
    ModuleSelector(const std::string &pattern);
    ModuleSelector(std::initializer_list<std::string> patterns);
    ModuleSelector(const std::vector<std::string> &patterns);
    /// The modules for which `predicate(path, module)`.
    template <std::predicate<const std::string &, const nn::Module &> F>
    ModuleSelector(F predicate) : ModuleSelector("**") {
        filter_ = std::move(predicate);
        filter_name_ = "is accepted by the predicate";
    }
    /// The modules that match `pattern` and are an M, or derived from it.
    template <typename M>
    static ModuleSelector OfType(const std::string &pattern = "**") {
        ModuleSelector selector(pattern);
        selector.filter_ = [](const std::string &, const nn::Module &module) {
            return dynamic_cast<const M *>(&module) != nullptr;
        };
        selector.filter_name_ = "is of the C++ type asked for";
        return selector;
    }

    /// The same, but matching nothing is no error.
    ModuleSelector Optional() const;

private:
    friend INFINI_TRAIN_EXPORT NamedModuleList MatchModules(nn::Module &root, const ModuleSelector &selector);

    struct Rule {
        explicit Rule(const std::string &pattern);
        bool Matches(const std::string &path, const nn::Module &module) const;

        std::string text;
        bool excludes = false;
        std::vector<std::vector<std::string>> paths;  // alternatives, each split into names
        std::vector<std::string> types;               // alternatives; none: any type
    };

    void CheckMatched(const std::vector<bool> &matched, bool any, const NamedModuleList &all) const;

    std::vector<Rule> rules_;
    Predicate filter_;  // may be empty
    std::string filter_name_;
    bool optional_ = false;
};

/// The modules of the tree under `root` that `selector` asks for, parents first, each once even if it is registered in
/// several places (any of which may match). Throws IndexError, with the paths that come near, if a pattern matches
/// nothing.
INFINI_TRAIN_EXPORT NamedModuleList MatchModules(nn::Module &root, const ModuleSelector &selector);

/// The modules of the tree that have no children, in order of registration: its layers.
INFINI_TRAIN_EXPORT NamedModuleList LeafModules(nn::Module &root);

/// The modules of the tree that are an M, or derived from it, with their paths; none is no error.
template <typename M>
std::vector<std::pair<std::string, std::shared_ptr<M>>> ModulesOfType(nn::Module &root) {
    std::vector<std::pair<std::string, std::shared_ptr<M>>> modules;
    for (const auto &[path, module] : root.NamedModules()) {
        if (auto *typed = dynamic_cast<M *>(module.get())) {
            modules.emplace_back(path, std::shared_ptr<M>(module, typed));
        }
    }
    return modules;
}

enum class ModuleHookKind { kForwardPre, kForwardPost, kBackwardPre, kBackwardPost };

/// A callable together with when it is to run; made by the four functions below.
template <ModuleHookKind kKind, typename F>
struct ModuleHookSpec {
    std::shared_ptr<HookHandle> RegisterOn(nn::Module &module) const {
        if constexpr (kKind == ModuleHookKind::kForwardPre) {
            return module.RegisterForwardPreHook(hook, options);
        } else if constexpr (kKind == ModuleHookKind::kForwardPost) {
            return module.RegisterForwardPostHook(hook, options);
        } else if constexpr (kKind == ModuleHookKind::kBackwardPre) {
            return module.RegisterBackwardPreHook(hook, options);
        } else {
            return module.RegisterBackwardPostHook(hook, options);
        }
    }

    F hook;
    HookOptions options;
};

/// Say what RegisterHooks is to register: any callable that the module's own registration of that kind takes.
template <typename F>
ModuleHookSpec<ModuleHookKind::kForwardPre, F> ForwardPre(F hook, HookOptions options = {}) {
    return {std::move(hook), std::move(options)};
}
template <typename F>
ModuleHookSpec<ModuleHookKind::kForwardPost, F> ForwardPost(F hook, HookOptions options = {}) {
    return {std::move(hook), std::move(options)};
}
template <typename F>
ModuleHookSpec<ModuleHookKind::kBackwardPre, F> BackwardPre(F hook, HookOptions options = {}) {
    return {std::move(hook), std::move(options)};
}
template <typename F>
ModuleHookSpec<ModuleHookKind::kBackwardPost, F> BackwardPost(F hook, HookOptions options = {}) {
    return {std::move(hook), std::move(options)};
}

/// Registers the hooks on every module of the tree that `selector` asks for; the group removes them at the end of its
/// scope. Each module has a copy of the callable. Throws as MatchModules does, and then registers nothing.
///
///     auto hooks = utils::RegisterHooks(*model, "blocks.*.attn",
///                                       utils::ForwardPost([](nn::Module *module, const TensorList &,
///                                                             const TensorList &outputs) { ... }),
///                                       utils::BackwardPost(clip, {.name = "clip"}));
template <ModuleHookKind... kKinds, typename... F>
requires(sizeof...(F) > 0) [[nodiscard]] HookGroup
    RegisterHooks(nn::Module &root, const ModuleSelector &selector, const ModuleHookSpec<kKinds, F> &...hooks) {
    HookGroup group;
    for (const auto &[path, module] : MatchModules(root, selector)) {
        (group.Add(hooks.RegisterOn(*module)), ...);
    }
    return group;
}

}  // namespace infini_train::utils
