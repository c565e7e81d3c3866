#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <utility>

#include "infini_train/include/common/hook.h"
#include "infini_train/include/common/tensor_fwd.h"

#include "infini_train/src/common/annotate.h"
#include "infini_train/src/common/format.h"

namespace infini_train::autograd {

/// ` 'name'`, or nothing for a hook without a name.
inline std::string QuotedName(const infini_train::internal::HookState &state) {
    return state.name.empty() ? std::string() : fmt::format(" '{}'", state.name);
}

/// Up to three sets of hooks that run one after the other, global ones first; those that are null are left out.
template <typename Hooks>
class HookLayers {
public:
    HookLayers(const Hooks *first, const Hooks *second, const Hooks *third = nullptr) {
        for (const Hooks *hooks : {first, second, third}) {
            if (hooks != nullptr) {
                layers_[size_++] = hooks;
            }
        }
    }
    const Hooks *const *begin() const { return layers_.data(); }
    const Hooks *const *end() const { return layers_.data() + size_; }

private:
    std::array<const Hooks *, 3> layers_ = {};
    size_t size_ = 0;
};

/// Throws AutogradError, which begins with `who()`, unless `replacement` may stand where `current` stood: as many
/// tensors, gradients of the same dims, data type and device (`exact`); null is fine among gradients only.
void CheckReplacement(const TensorList &replacement, const TensorList &current, bool gradients,
                      const std::function<std::string()> &who);

/// What `body()` gives, or nothing if it throws; the exception is in *failure then.
template <typename Body>
TensorList CatchInto(std::exception_ptr *failure, Body &&body) {
    try {
        return body();
    } catch (...) {
        *failure = std::current_exception();
        return {};
    }
}

/// Runs `body(hook, state, failed)` for the hooks that come after an operation. Once something has thrown, into
/// `failure` and maybe before this call, only those that are always called run; what they throw themselves is logged
/// and dropped.
template <typename Hook, typename Body>
void RunAlways(const HookList<Hook> &hooks, uint64_t last_id, const char *who, std::exception_ptr *failure,
               Body &&body) {
    using State = infini_train::internal::HookState;
    hooks.ForEachIf(
        last_id, [&](const State &state) { return *failure == nullptr || state.always_call; },
        [&](const Hook &hook, const State &state) {
            const bool failed = *failure != nullptr;
            try {
                body(hook, state, failed);
            } catch (...) {
                if (failed) {
                    LogDropped(who);
                } else {
                    *failure = std::current_exception();
                }
            }
        });
}

/// Runs the hooks of one function or module at one point: each sees what the one before it left, and what it throws
/// carries the hook's and the owner's name.
template <typename Owner>
class HookRunner {
public:
    /// `direction` is "forward" or "backward", `owner()` names what the hooks are registered on (asked for messages
    /// only); for `last_id` see HookList::ForEach.
    HookRunner(const char *direction, Owner owner, uint64_t last_id)
        : direction_(direction), owner_(std::move(owner)), last_id_(last_id) {}

    std::string Describe(const char *point, const infini_train::internal::HookState &state) const {
        return fmt::format("{} {} hook{} of {}", direction_, point, QuotedName(state), owner_());
    }

    /// `hook(target, list)` may replace `list`, a list of gradients or not.
    template <typename Hook, typename Target>
    void RunPre(const HookList<Hook> &hooks, TensorList &list, bool gradients, Target *target) const {
        hooks.ForEach(last_id_, [&](const Hook &hook, const State &state) {
            Call(hook, state, "pre", list, gradients, target, list);
        });
    }

    /// `hook(target, first, second)` may replace `list`, which is one of the two. For `failure` see RunAlways: once it
    /// is set nothing is replaced.
    template <typename Hook, typename Target>
    void RunPost(const HookList<Hook> &hooks, TensorList &list, bool gradients, std::exception_ptr *failure,
                 Target *target, const TensorList &first, const TensorList &second) const {
        RunAlways(hooks, last_id_, gradients ? "a backward post hook" : "a forward post hook", failure,
                  [&](const Hook &hook, const State &state, bool failed) {
                      if (failed) {
                          hook(target, first, second);
                      } else {
                          Call(hook, state, "post", list, gradients, target, first, second);
                      }
                  });
    }

private:
    using State = infini_train::internal::HookState;

    template <typename Hook, typename Target, typename... Args>
    void Call(const Hook &hook, const State &state, const char *point, TensorList &list, bool gradients, Target *target,
              const Args &...args) const {
        HookResult result = WithContext([&] { return Describe(point, state); }, [&] { return hook(target, args...); });
        if (result && !result->empty()) {
            CheckReplacement(*result, list, gradients, [&] { return Describe(point, state); });
            list = *std::move(result);
        }
    }

    const char *const direction_;
    const Owner owner_;
    const uint64_t last_id_;
};

}  // namespace infini_train::autograd
