#include <ostream>
#include <utility>
#include <vector>

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/nn/modules/module.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/hook_runner.h"
#include "infini_train/src/common/annotate.h"
#include "infini_train/src/common/format.h"

namespace infini_train::nn {
namespace {

std::string Listed(const char *what, const std::vector<std::string> &names) {
    return names.empty() ? "" : fmt::format("\n  {}: {}", what, fmt::join(names, ", "));
}

// Runs the hooks that `list` picks, if there are any.
template <typename Hook, typename... Args>
void RunHooks(const ModuleHooks &hooks, HookList<Hook> StateDictHooks::*list, const char *point, uint64_t last_id,
              Module &module, Args &&...args) {
    const StateDictHooks *registered = hooks.state_dict.Find();
    if (registered == nullptr) {
        return;
    }
    (registered->*list).ForEach(last_id, [&](const Hook &hook, const infini_train::internal::HookState &state) {
        const auto describe = [&] {
            return fmt::format("{} hook{} of {}", point, autograd::QuotedName(state), module.Describe());
        };
        WithContext(describe, [&] { hook(&module, args...); });
    });
}

template <typename Hook>
std::shared_ptr<HookHandle> AddHook(ModuleHooks &hooks, HookList<Hook> StateDictHooks::*list, const Module &module,
                                    Hook hook, const HookOptions &options) {
    if (hook == nullptr) {
        Throw<ValueError>("{}: expected a state dict hook to call, got an empty function", module.Describe());
    }
    return (hooks.state_dict.Get().*list).Add(std::move(hook), options);
}

// What a load has to say of itself, and what would have to be copied where.
struct Plan {
    LoadReport report;
    std::vector<std::string> mismatched;
    std::vector<std::pair<TensorPtr, TensorPtr>> copies;  // to, from
};

Plan Compare(const StateDict &own, const StateDict &state) {
    Plan plan;
    for (const auto &[name, tensor] : own) {
        const auto found = state.find(name);
        if (found == state.end() || found->second == nullptr) {
            plan.report.missing.push_back(name);
        } else if (found->second->Dims() != tensor->Dims()) {
            plan.mismatched.push_back(fmt::format("{} (expected {}, got {})", name, FormatDims(tensor->Dims()),
                                                  FormatDims(found->second->Dims())));
        } else {
            plan.copies.emplace_back(tensor, found->second);
        }
    }
    for (const auto &[name, tensor] : state) {
        if (own.find(name) == own.end()) {
            plan.report.unexpected.push_back(name);
        }
    }
    return plan;
}

void CheckFits(const Plan &plan, bool strict, const Module &module) {
    const LoadReport &report = plan.report;
    if (!plan.mismatched.empty() || (strict && !(report.missing.empty() && report.unexpected.empty()))) {
        Throw<ValueError>("{}: the state dict doesn't fit:{}{}{}", module.Describe(), Listed("missing", report.missing),
                          Listed("unexpected", report.unexpected), Listed("of other dims", plan.mismatched));
    }
}

}  // namespace

std::shared_ptr<HookHandle> Module::RegisterStateDictPreHook(StateDictPreHook hook, const HookOptions &options) {
    return AddHook(*hooks_, &StateDictHooks::save_pre, *this, std::move(hook), options);
}

std::shared_ptr<HookHandle> Module::RegisterStateDictPostHook(StateDictPostHook hook, const HookOptions &options) {
    return AddHook(*hooks_, &StateDictHooks::save_post, *this, std::move(hook), options);
}

std::shared_ptr<HookHandle> Module::RegisterLoadStateDictPreHook(LoadStateDictPreHook hook,
                                                                 const HookOptions &options) {
    return AddHook(*hooks_, &StateDictHooks::load_pre, *this, std::move(hook), options);
}

std::shared_ptr<HookHandle> Module::RegisterLoadStateDictPostHook(LoadStateDictPostHook hook,
                                                                  const HookOptions &options) {
    return AddHook(*hooks_, &StateDictHooks::load_post, *this, std::move(hook), options);
}

void Module::VisitPaths(const std::string &prefix, const PathVisitor &enter, const PathVisitor &leave) {
    enter(*this, prefix);
    for (size_t i = 0; i < children_.size(); ++i) {  // a hook may add some
        const auto [name, child] = children_[i];
        child->VisitPaths(prefix + name + ".", enter, leave);
    }
    leave(*this, prefix);
}

void Module::CollectOwn(const std::string &prefix, nn::StateDict *state) const {
    for (const auto &[name, parameter] : parameters_) {
        if (parameter != nullptr) {
            (*state)[prefix + name] = parameter->Detach();
        }
    }
    for (const auto &[name, buffer] : buffers_) {
        if (buffer.persistent) {
            (*state)[prefix + name] = buffer.tensor->Detach();
        }
    }
}

StateDict Module::StateDict() const {
    const autograd::NoGradGuard no_grad;
    const uint64_t last_id = infini_train::internal::LatestHookId();
    nn::StateDict state;
    // Every name of a shared tensor is written, so that the state also fits a module that doesn't share it.
    const_cast<Module *>(this)->VisitPaths(
        "",
        [&](Module &module, const std::string &prefix) {
            RunHooks(*module.hooks_, &StateDictHooks::save_pre, "state dict pre", last_id, module, prefix);
            module.CollectOwn(prefix, &state);
        },
        [&](Module &module, const std::string &prefix) {
            RunHooks(*module.hooks_, &StateDictHooks::save_post, "state dict post", last_id, module, state, prefix);
        });
    return state;
}

LoadReport Module::LoadStateDict(const nn::StateDict &given, bool strict) {
    const autograd::NoGradGuard no_grad;
    const uint64_t last_id = infini_train::internal::LatestHookId();
    const PathVisitor nothing = [](Module &, const std::string &) {};
    nn::StateDict state = given;
    VisitPaths(
        "",
        [&](Module &module, const std::string &prefix) {
            RunHooks(*module.hooks_, &StateDictHooks::load_pre, "load state dict pre", last_id, module, state, prefix);
        },
        nothing);
    nn::StateDict own;
    bool post_hooks = false;
    VisitPaths(
        "",
        [&](Module &module, const std::string &prefix) {
            module.CollectOwn(prefix, &own);
            const StateDictHooks *hooks = module.hooks_->state_dict.Find();
            post_hooks = post_hooks || (hooks != nullptr && !hooks->load_post.empty());
        },
        nothing);
    Plan plan = Compare(own, state);
    // With hooks that may yet change the report, what is missing or unexpected is judged when they have.
    CheckFits(plan, strict && !post_hooks, *this);
    std::vector<TensorPtr> before;
    if (post_hooks) {
        for (const auto &[name, tensor] : own) {
            before.push_back(tensor->Clone());
        }
    }
    try {
        for (const auto &[to, from] : plan.copies) {
            to->Copy_(from->To(to->GetDevice()));
        }
        if (post_hooks) {
            VisitPaths("", nothing, [&](Module &module, const std::string &prefix) {
                RunHooks(*module.hooks_, &StateDictHooks::load_post, "load state dict post", last_id, module,
                         plan.report, prefix);
            });
            CheckFits(plan, strict, *this);
        }
    } catch (...) {
        auto value = before.begin();
        for (auto entry = own.begin(); value != before.end(); ++entry, ++value) {
            entry->second->Copy_(*value);
        }
        throw;
    }
    return plan.report;
}

std::string Module::Tree(const std::string &indent) const {
    std::string text = type_ + "(" + ExtraRepr();
    if (children_.empty()) {
        return text + ")";
    }
    text += "\n";
    for (const auto &[name, child] : children_) {
        text += indent + "  (" + name + "): " + child->Tree(indent + "  ") + "\n";
    }
    return text + indent + ")";
}

std::string Module::ToString() const {
    return Tree("");
}

std::ostream &operator<<(std::ostream &stream, const Module &module) {
    return stream << module.ToString();
}

}  // namespace infini_train::nn
