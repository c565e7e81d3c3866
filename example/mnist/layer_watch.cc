#include "example/mnist/layer_watch.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "infini_train/include/utils/html_report.h"
#include "infini_train/include/utils/monitor_writers.h"

#include "example/common/table.h"

namespace infini_train::example {

LayerWatch::LayerWatch(nn::Module &model, Optimizer &optimizer, WatchOptions options)
    : options_(std::move(options)),
      log_(std::make_shared<utils::MonitorLog>(utils::MonitorOptions{
          .every = options_.every, .histograms = !options_.report.empty() || !options_.tensorboard.empty()})),
      activations_(log_, model),
      gradients_(log_, model) {
    gradients_.WatchUpdates(optimizer);
    if (!options_.csv.empty()) {
        log_->AddSink(std::make_shared<utils::CsvSink>(options_.csv));
    }
    if (!options_.tensorboard.empty()) {
        log_->AddSink(std::make_shared<utils::TensorBoardSink>(options_.tensorboard));
    }
}

void LayerWatch::BeginBatch() {
    if (in_batch_) {
        log_->NextStep();
    }
    in_batch_ = true;
}

std::string LayerWatch::Summary(const Terminal &terminal) {
    using utils::Quantity;
    const auto &all = log_->series();
    seen_.resize(all.size(), 0);
    const auto since = [&](Quantity quantity, const std::string &name) {
        utils::TensorStatistics sum;
        for (size_t i = 0; i < all.size(); ++i) {
            if (all[i].quantity == quantity && all[i].name == name) {
                const auto &measurements = all[i].measurements;
                for (; seen_[i] < measurements.size(); ++seen_[i]) {
                    sum.Merge(measurements[seen_[i]].statistics);
                }
            }
        }
        return sum;
    };
    Table table({"layer", "mean", "std", "zeros", "largest", "gradient rms"},
                {Table::kLeft, Table::kRight, Table::kRight, Table::kRight, Table::kRight, Table::kRight});
    for (const utils::MeasurementSeries &series : all) {
        if (series.quantity != Quantity::kOutput) {
            continue;
        }
        const utils::TensorStatistics out = since(Quantity::kOutput, series.name);
        const utils::TensorStatistics gradient = since(Quantity::kOutputGradient, series.name);
        table.AddRow({series.name + " " + series.type, fmt::format("{:.3f}", out.mean), fmt::format("{:.3f}", out.std),
                      FormatPercent(out.ZeroShare()), fmt::format("{:.3f}", std::max(-out.min, out.max)),
                      gradient.count > 0 ? fmt::format("{:.2e}", gradient.RootMeanSquare()) : "-"});
    }
    return table.ToString(terminal);
}

void LayerWatch::Finish() {
    if (in_batch_) {
        log_->NextStep();
    }
    if (!options_.report.empty()) {
        utils::WriteHtmlReport(*log_, options_.report, {.title = "Training report", .subtitle = options_.title});
    }
}

}  // namespace infini_train::example
