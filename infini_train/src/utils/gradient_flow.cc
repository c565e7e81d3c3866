#include "infini_train/include/utils/gradient_flow.h"

#include <algorithm>
#include <cstddef>
#include <set>

#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/utils/monitor_clock.h"
#include "infini_train/src/utils/monitored_modules.h"

namespace infini_train::utils {
namespace {

constexpr char kName[] = "GradientFlow";

std::vector<std::pair<std::string, TensorPtr>> ParametersBelow(const NamedModuleList &modules) {
    std::vector<std::pair<std::string, TensorPtr>> parameters;
    std::set<const Tensor *> seen;
    for (const auto &[path, module] : modules) {
        if (module == nullptr) {
            continue;  // an error that VisitOutputs reports
        }
        for (auto &named : module->NamedParameters(path)) {
            if (seen.insert(named.second.get()).second) {
                parameters.push_back(std::move(named));
            }
        }
    }
    return parameters;
}

// The gradient of an inner tensor, for the one pass that follows.
void HookGradient(const std::shared_ptr<MonitorLog> &log, const TensorPtr &output, size_t series) {
    // A leaf may be used again at other steps, and a parameter is seen anyway.
    if (!output->requires_grad() || output->is_leaf()) {
        return;
    }
    output->RegisterHook(
        [log, series](const TensorPtr &grad) {
            if (grad != nullptr) {
                log->Measure(series, *grad);
            }
        },
        {.name = kName, .max_calls = 1});
}

// A parameter as it was, and where its measurements go.
struct Snapshot {
    TensorPtr parameter;
    size_t values;
    size_t update;
    TensorPtr before;
};

}  // namespace

GradientFlow::GradientFlow(std::shared_ptr<MonitorLog> log, nn::Module &model)
    : GradientFlow(std::move(log), LeafModules(model), model.NamedParameters()) {}

GradientFlow::GradientFlow(std::shared_ptr<MonitorLog> log, const NamedModuleList &modules)
    : GradientFlow(std::move(log), modules, ParametersBelow(modules)) {}

GradientFlow::GradientFlow(std::shared_ptr<MonitorLog> log, const NamedModuleList &modules,
                           NamedParameterList parameters)
    : log_(std::move(log)),
      parameters_(std::move(parameters)),
      hooks_(
          VisitOutputs(kName, log_, modules, Quantity::kOutputGradient, /*in_evaluation=*/false,
                       [log = log_](const TensorPtr &output, size_t series) { HookGradient(log, output, series); })) {
    for (const auto &[path, parameter] : parameters_) {
        if (!parameter->requires_grad()) {
            continue;
        }
        const size_t series = log_->AddSeries(Quantity::kGradient, path, FormatDims(parameter->Dims()));
        hooks_.Add(parameter->RegisterPostAccumulateGradHook(
            [log = log_, series](const TensorPtr &leaf) {
                if (log->IsDue() && leaf->grad() != nullptr) {
                    log->Measure(series, *leaf->grad(), MonitorLog::Again::kReplace);
                }
            },
            {.name = kName}));
    }
}

void GradientFlow::WatchUpdates(Optimizer &optimizer) {
    auto snapshots = std::make_shared<std::vector<Snapshot>>();
    const TensorList &params = optimizer.params();
    for (const auto &[path, parameter] : parameters_) {
        if (std::find(params.begin(), params.end(), parameter) != params.end()) {
            const std::string dims = FormatDims(parameter->Dims());
            snapshots->push_back({parameter, log_->AddSeries(Quantity::kParameter, path, dims),
                                  log_->AddSeries(Quantity::kUpdate, path, dims), nullptr});
        }
    }
    hooks_.Add(optimizer.RegisterStepPreHook(
        [log = log_, snapshots](Optimizer *) {
            for (Snapshot &snapshot : *snapshots) {
                snapshot.before = nullptr;
                if (log->IsDue() && snapshot.parameter->grad() != nullptr) {
                    {
                        const MonitorLog::Clock clock(*log);
                        snapshot.before = snapshot.parameter->Clone();
                    }
                    log->Measure(snapshot.values, *snapshot.before, MonitorLog::Again::kReplace);
                }
            }
        },
        {.name = kName}));
    hooks_.Add(optimizer.RegisterStepPostHook(
        [log = log_, snapshots](Optimizer *) {
            for (Snapshot &snapshot : *snapshots) {
                if (snapshot.before != nullptr) {
                    TensorPtr update;
                    {
                        const MonitorLog::Clock clock(*log);
                        update = snapshot.parameter->Sub(snapshot.before);
                    }
                    log->Measure(snapshot.update, *update, MonitorLog::Again::kReplace);
                    snapshot.before = nullptr;
                }
            }
        },
        {.name = kName}));
}

}  // namespace infini_train::utils
