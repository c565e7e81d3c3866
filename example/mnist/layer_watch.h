#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "infini_train/include/nn/modules/module.h"
#include "infini_train/include/optimizer.h"
#include "infini_train/include/utils/activation_monitor.h"
#include "infini_train/include/utils/gradient_flow.h"
#include "infini_train/include/utils/monitor_log.h"

#include "example/common/terminal.h"

namespace infini_train::example {

/// What --watch and its like ask for; an empty path leaves that file out.
struct WatchOptions {
    bool table = false;
    int64_t every = 100;  // batches
    std::string csv;
    std::string tensorboard;
    std::string report;
    std::string title;  // of the report: what run it was

    bool Any() const { return table || !csv.empty() || !tensorboard.empty() || !report.empty(); }
};

/// Watches the layers of a network with the library's monitors (docs/tools/monitoring.md), of which it knows nothing.
class LayerWatch {
public:
    LayerWatch(nn::Module &model, Optimizer &optimizer, WatchOptions options);

    /// A batch begins; the one before is complete.
    void BeginBatch();
    void AddScalar(const std::string &name, double value) { log_->AddScalar(name, value); }
    /// What has been seen since the last time, a row a layer: mean, deviation, share of zeros and largest magnitude of
    /// the outputs, and the root mean square of their gradients.
    std::string Summary(const Terminal &terminal);
    /// Ends the last batch and writes the report, if one is wanted. To be called once.
    void Finish();

private:
    const WatchOptions options_;
    std::shared_ptr<utils::MonitorLog> log_;
    utils::ActivationMonitor activations_;
    utils::GradientFlow gradients_;
    std::vector<size_t> seen_;  // measurements of each series that a table has shown
    bool in_batch_ = false;
};

}  // namespace infini_train::example
