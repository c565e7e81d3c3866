#pragma once

#include <cstdint>
#include <string>

#include "infini_train/include/common/hook.h"
#include "infini_train/include/common/tensor_fwd.h"

#include "infini_train/src/common/annotate.h"
#include "infini_train/src/common/format.h"

namespace infini_train::autograd {

/// Throws AutogradError, which begins with `who`, unless `replacement` may stand where `current` stood: as many
/// tensors, gradients of the same dims, data type and device (`exact`); null is fine among gradients only.
void CheckReplacement(const TensorList &replacement, const TensorList &current, bool gradients, const std::string &who);

/// Runs the hooks of one function or module at one point: each sees what the one before it left, and what it throws
/// carries the hook's and the owner's name.
struct HookRunner {
    enum class Replace { kForward, kGradients };

    const char *direction;                                              // "forward" or "backward"
    const std::string &owner;                                           // what they are registered on, for messages
    uint64_t last_id;                                                   // see HookList::ForEach
    mutable const infini_train::internal::HookState *latest = nullptr;  // the hook that was begun last

    std::string Describe(const char *point, const infini_train::internal::HookState &state) const {
        return fmt::format("{} {} hook{} of {}", direction, point, state.name.empty() ? "" : " '" + state.name + "'",
                           owner);
    }

    /// `hook(target, list)` may replace `list`.
    template <typename Hook, typename Target>
    void RunPre(const HookList<Hook> &hooks, const char *point, TensorList &list, Replace replace,
                Target *target) const {
        RunPost(hooks, point, list, replace, target, list);
    }

    /// `hook(target, args...)` may replace `list`, which may be one of `args`.
    template <typename Hook, typename Target, typename... Args>
    void RunPost(const HookList<Hook> &hooks, const char *point, TensorList &list, Replace replace, Target *target,
                 const Args &...args) const {
        hooks.ForEach(last_id, [&](const Hook &hook, const infini_train::internal::HookState &state) {
            latest = &state;
            HookResult result =
                WithContext([&] { return Describe(point, state); }, [&] { return hook(target, args...); });
            if (result && !result->empty()) {
                CheckReplacement(*result, list, replace == Replace::kGradients, Describe(point, state));
                list = *std::move(result);
            }
        });
    }
};

}  // namespace infini_train::autograd
