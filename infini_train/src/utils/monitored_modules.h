#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "infini_train/include/common/hook.h"
#include "infini_train/include/utils/module_pattern.h"
#include "infini_train/include/utils/monitor_log.h"

namespace infini_train::utils {

/// Calls `visit(output, series)` for each output of a call of these modules, at steps that are due; series of
/// `quantity` are there from the beginning, in the order of the modules.
HookGroup VisitOutputs(const char *monitor, const std::shared_ptr<MonitorLog> &log, const NamedModuleList &modules,
                       Quantity quantity, bool in_evaluation,
                       const std::function<void(const TensorPtr &output, size_t series)> &visit);

}  // namespace infini_train::utils
