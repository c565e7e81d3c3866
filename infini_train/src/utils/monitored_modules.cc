#include "infini_train/src/utils/monitored_modules.h"

#include "infini_train/include/common/error.h"

#include "infini_train/src/common/format.h"

namespace infini_train::utils {

HookGroup VisitOutputs(const char *monitor, const std::shared_ptr<MonitorLog> &log, const NamedModuleList &modules,
                       Quantity quantity, bool in_evaluation,
                       const std::function<void(const TensorPtr &output, size_t series)> &visit) {
    if (log == nullptr) {
        Throw<ValueError>("{}: expected a log, got null", monitor);
    }
    if (modules.empty()) {
        Throw<ValueError>("{}: expected modules, got none", monitor);
    }
    HookGroup hooks;
    for (const auto &[path, module] : modules) {
        if (module == nullptr) {
            Throw<ValueError>("{}: the module '{}' is null", monitor, path);
        }
        const std::string type = module->type();
        const std::string name = path.empty() ? type : path;  // a root has no path
        const size_t first = log->AddSeries(quantity, name, type);
        hooks.Add(module->RegisterForwardPostHook(
            [=](nn::Module *called, const TensorList &, const TensorList &outputs) {
                if (!log->IsDue() || !(called->is_training() || in_evaluation)) {
                    return;
                }
                for (size_t i = 0; i < outputs.size(); ++i) {
                    if (outputs[i] != nullptr) {
                        visit(outputs[i],
                              i == 0 ? first : log->AddSeries(quantity, fmt::format("{}[{}]", name, i), type));
                    }
                }
            },
            {.name = monitor}));
    }
    return hooks;
}

}  // namespace infini_train::utils
