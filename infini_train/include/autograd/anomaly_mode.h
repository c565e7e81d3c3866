#pragma once

#include <string>

#include "infini_train/include/common/export.h"

namespace infini_train::autograd {

/// Until the end of the scope, in this thread: functions remember the module that they are applied in, and a backward
/// pass stops at the first gradient that isn't finite, with an AutogradError that names the forward operator, its
/// module and the input concerned. Slow: every gradient is looked at.
class INFINI_TRAIN_EXPORT AnomalyModeGuard {
public:
    explicit AnomalyModeGuard(bool enabled = true) : previous_(IsEnabled()) { SetEnabled(enabled); }
    ~AnomalyModeGuard() { SetEnabled(previous_); }
    AnomalyModeGuard(const AnomalyModeGuard &) = delete;
    AnomalyModeGuard &operator=(const AnomalyModeGuard &) = delete;

    static bool IsEnabled();

private:
    static void SetEnabled(bool enabled);

    const bool previous_;
};

namespace internal {
/// How the nn layer tells where in the tree of modules this thread is.
INFINI_TRAIN_EXPORT void SetModulePathProvider(std::string (*provider)());
INFINI_TRAIN_EXPORT std::string CurrentModulePath();
}  // namespace internal

}  // namespace infini_train::autograd
