#pragma once

#include "infini_train/include/common/export.h"

namespace infini_train::autograd {

/// Whether this thread records what it computes. On at first.
class INFINI_TRAIN_EXPORT GradMode {
public:
    static bool IsEnabled() { return enabled_; }
    static void SetEnabled(bool enabled) { enabled_ = enabled; }

private:
    static inline thread_local bool enabled_ = true;
};

namespace internal {
template <bool kEnabled>
class GradModeGuard {
public:
    GradModeGuard() : previous_(GradMode::IsEnabled()) { GradMode::SetEnabled(kEnabled); }
    ~GradModeGuard() { GradMode::SetEnabled(previous_); }
    GradModeGuard(const GradModeGuard &) = delete;
    GradModeGuard &operator=(const GradModeGuard &) = delete;

private:
    const bool previous_;
};
}  // namespace internal

/// Records nothing until the end of the scope.
class NoGradGuard : public internal::GradModeGuard<false> {};
/// Records again, inside of a NoGradGuard.
class EnableGradGuard : public internal::GradModeGuard<true> {};

}  // namespace infini_train::autograd
