#include "infini_train/include/utils/activation_monitor.h"

#include "infini_train/include/tensor.h"

#include "infini_train/src/utils/monitored_modules.h"

namespace infini_train::utils {

ActivationMonitor::ActivationMonitor(std::shared_ptr<MonitorLog> log, nn::Module &model,
                                     const ActivationMonitorOptions &options)
    : ActivationMonitor(std::move(log), LeafModules(model), options) {}

ActivationMonitor::ActivationMonitor(std::shared_ptr<MonitorLog> log, const NamedModuleList &modules,
                                     const ActivationMonitorOptions &options)
    : hooks_(VisitOutputs("ActivationMonitor", log, modules, Quantity::kOutput, options.in_evaluation,
                          [log](const TensorPtr &output, size_t series) { log->Measure(series, *output); })) {}

}  // namespace infini_train::utils
