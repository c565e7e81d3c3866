#pragma once

#include <memory>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/hook.h"
#include "infini_train/include/nn/modules/module.h"
#include "infini_train/include/utils/module_pattern.h"
#include "infini_train/include/utils/monitor_log.h"

namespace infini_train::utils {

struct ActivationMonitorOptions {
    bool in_evaluation = false;  ///< measures modules that aren't in training mode, too
};

/// Measures the outputs of modules, through forward post hooks, at the steps that are due; several calls of a module
/// in one step count together. A series is named by the module's path; further outputs by `path[1]` and so on. The
/// hooks go when the monitor does. See MonitorLog.
class INFINI_TRAIN_EXPORT ActivationMonitor {
public:
    /// All layers of a model, or certain modules. Throws ValueError for a null log or module, or an empty list.
    ActivationMonitor(std::shared_ptr<MonitorLog> log, nn::Module &model, const ActivationMonitorOptions &options = {});
    ActivationMonitor(std::shared_ptr<MonitorLog> log, const NamedModuleList &modules,
                      const ActivationMonitorOptions &options = {});

private:
    HookGroup hooks_;
};

}  // namespace infini_train::utils
