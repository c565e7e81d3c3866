#include <algorithm>
#include <utility>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/nn/modules/module.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/hook_runner.h"
#include "infini_train/src/common/annotate.h"
#include "infini_train/src/common/format.h"

namespace infini_train::nn {
namespace {

using infini_train::internal::HookState;

// Lets the hooks put something else in the place of *part; `check` throws if it may not stand there.
template <typename Hook, typename Part, typename Check>
void RunRegistrationHooks(const HookList<Hook> &hooks, const char *what, Module *module, const std::string &name,
                          Part *part, const Check &check) {
    hooks.ForEach(infini_train::internal::LatestHookId(), [&](const Hook &hook, const HookState &state) {
        const auto describe = [&] { return fmt::format("{} registration hook{}", what, autograd::QuotedName(state)); };
        WithContext(describe, [&] {
            if (Part replacement = hook(module, name, *part)) {
                check(replacement);
                *part = std::move(replacement);
            }
        });
    });
}

template <typename Entries>
bool Has(const Entries &entries, const std::string &name) {
    return std::any_of(entries.begin(), entries.end(), [&](const auto &entry) { return entry.first == name; });
}

}  // namespace

RegistrationHooks &GlobalRegistrationHooks() {
    static auto *hooks = new RegistrationHooks;  // never destroyed: static modules may still be built
    return *hooks;
}

void Module::CheckName(const char *what, const std::string &name) const {
    if (name.empty() || name.find('.') != std::string::npos) {
        Throw<ValueError>("{}: expected a name without dots for a {}, got '{}'", type_, what, name);
    }
    if (Has(parameters_, name) || Has(buffers_, name) || Has(children_, name)) {
        Throw<ValueError>("{}: the name '{}' of a {} is taken", type_, name, what);
    }
}

TensorPtr Module::RegisterParameter(const std::string &name, TensorPtr parameter) {
    const auto check = [&](const TensorPtr &tensor) {
        if (!tensor->is_leaf()) {
            Throw<ValueError>("{}: parameter '{}' must be a leaf, it is an output of {}", type_, name,
                              tensor->grad_fn()->type());
        }
    };
    CheckName("parameter", name);
    if (parameter != nullptr) {
        check(parameter);
        RunRegistrationHooks(GlobalRegistrationHooks().parameter, "parameter", this, name, &parameter, check);
        CheckName("parameter", name);  // again: a hook may have taken it
    }
    parameters_.emplace_back(name, parameter);
    TellWatchers();
    return parameter;
}

TensorPtr Module::RegisterBuffer(const std::string &name, TensorPtr buffer, bool persistent) {
    CheckName("buffer", name);
    if (buffer != nullptr) {
        RunRegistrationHooks(GlobalRegistrationHooks().buffer, "buffer", this, name, &buffer, [](const TensorPtr &) {});
        CheckName("buffer", name);
        buffers_.emplace_back(name, Buffer{buffer, persistent});
    }
    return buffer;
}

std::shared_ptr<Module> Module::AddChild(const std::string &name, std::shared_ptr<Module> child,
                                         bool (*is_kind)(const std::shared_ptr<Module> &)) {
    CheckName("module", name);
    if (child == nullptr) {
        return nullptr;
    }
    RunRegistrationHooks(GlobalRegistrationHooks().module, "module", this, name, &child,
                         [&](const std::shared_ptr<Module> &replacement) {
                             if (!is_kind(replacement)) {
                                 Throw<ValueError>("{}: the module '{}' must be what it was declared as, got {}", type_,
                                                   name, replacement->type());
                             }
                         });
    Adopt(name, child);
    return child;
}

void Module::Adopt(const std::string &name, std::shared_ptr<Module> child) {
    CheckName("module", name);
    child->Visit("", [&](const std::string &path, Module &module) {
        if (&module == this) {
            Throw<ValueError>("{}: the module '{}' can't be registered, it contains this one{}", type_, name,
                              path.empty() ? "" : " at " + path);
        }
    });
    child->parent_ = this;
    children_.emplace_back(name, std::move(child));
    TellWatchers();
}

}  // namespace infini_train::nn
