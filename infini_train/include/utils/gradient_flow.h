#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/hook.h"
#include "infini_train/include/nn/modules/module.h"
#include "infini_train/include/optimizer.h"
#include "infini_train/include/utils/module_pattern.h"
#include "infini_train/include/utils/monitor_log.h"

namespace infini_train::utils {

/// Measures how gradients arrive: at the outputs of modules, and at parameters, at the steps that are due. A module's
/// outputs get a hook only in a call at such a step. A parameter's gradient is what grad() holds after the last
/// accumulation of the step. The hooks go when the monitor does. See MonitorLog.
class INFINI_TRAIN_EXPORT GradientFlow {
public:
    /// All layers and parameters of a model; or certain modules and the parameters below them. Throws ValueError for a
    /// null log or module, or an empty list.
    GradientFlow(std::shared_ptr<MonitorLog> log, nn::Module &model);
    GradientFlow(std::shared_ptr<MonitorLog> log, const NamedModuleList &modules);

    /// Measures also the parameters before a step of this optimizer and what the step adds to them, from which comes
    /// how fast they change. Costs a copy of the parameters at the steps that are due.
    void WatchUpdates(Optimizer &optimizer);

private:
    using NamedParameterList = std::vector<std::pair<std::string, TensorPtr>>;

    GradientFlow(std::shared_ptr<MonitorLog> log, const NamedModuleList &modules, NamedParameterList parameters);

    std::shared_ptr<MonitorLog> log_;
    NamedParameterList parameters_;
    HookGroup hooks_;
};

}  // namespace infini_train::utils
