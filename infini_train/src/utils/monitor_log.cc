#include "infini_train/include/utils/monitor_log.h"

#include <algorithm>
#include <utility>

#include "infini_train/include/common/error.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/utils/monitor_clock.h"

namespace infini_train::utils {

const char *ToString(Quantity quantity) {
    switch (quantity) {
        case Quantity::kOutput:
            return "output";
        case Quantity::kOutputGradient:
            return "output_gradient";
        case Quantity::kGradient:
            return "gradient";
        case Quantity::kParameter:
            return "parameter";
        case Quantity::kUpdate:
            return "update";
    }
    return "unknown";
}

MonitorLog::MonitorLog(const MonitorOptions &options) : options_(options) {
    if (options.every < 1) {
        Throw<ValueError>("MonitorLog: expected every >= 1, got {}", options.every);
    }
    if (options.max_histograms < 2) {
        Throw<ValueError>("MonitorLog: expected max_histograms >= 2, got {}", options.max_histograms);
    }
}

size_t MonitorLog::AddSeries(Quantity quantity, const std::string &name, const std::string &type) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto [found, added] = positions_.try_emplace({quantity, name}, series_.size());
    if (added) {
        series_.push_back({quantity, name, type, {}});
    }
    return found->second;
}

void MonitorLog::Measure(size_t series, const Tensor &tensor, Again again) {
    const Clock clock(*this);
    TensorStatistics statistics = ComputeStatistics(tensor, options_.histograms);
    const std::lock_guard<std::mutex> lock(mutex_);
    auto &measurements = series_[series].measurements;
    if (measurements.empty() || measurements.back().step != step()) {
        measurements.push_back({step(), std::move(statistics)});
    } else if (again == Again::kMerge) {
        measurements.back().statistics.Merge(statistics);
    } else {
        measurements.back().statistics = std::move(statistics);
    }
}

void MonitorLog::AddScalar(const std::string &name, double value) {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto found =
        std::find_if(scalars_.begin(), scalars_.end(), [&](const auto &series) { return series.name == name; });
    if (found == scalars_.end()) {
        scalars_.push_back({name, {}, {}});
        found = scalars_.end() - 1;
    }
    if (!found->steps.empty() && found->steps.back() == step()) {
        found->values.back() = value;
        return;
    }
    found->steps.push_back(step());
    found->values.push_back(value);
}

void MonitorLog::NextStep() {
    const Clock clock(*this);
    const std::lock_guard<std::mutex> lock(mutex_);
    MonitorStep complete;
    complete.step = step();
    for (const MeasurementSeries &series : series_) {
        if (!series.measurements.empty() && series.measurements.back().step == complete.step) {
            complete.measurements.emplace_back(&series, &series.measurements.back().statistics);
        }
    }
    for (const ScalarSeries &series : scalars_) {
        if (!series.steps.empty() && series.steps.back() == complete.step) {
            complete.scalars.emplace_back(series.name, series.values.back());
        }
    }
    // The step is over also if a sink throws.
    step_.fetch_add(1, std::memory_order_relaxed);
    if (!complete.measurements.empty() || !complete.scalars.empty()) {
        for (const auto &sink : sinks_) {
            sink->Write(complete);
        }
    }
    for (const auto &[series, statistics] : complete.measurements) {
        Thin(&series_[static_cast<size_t>(series - series_.data())]);
    }
}

void MonitorLog::AddSink(std::shared_ptr<MonitorSink> sink) {
    if (sink == nullptr) {
        throw ValueError("MonitorLog: expected a sink, got null");
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    sinks_.push_back(std::move(sink));
}

void MonitorLog::Thin(MeasurementSeries *series) const {
    const auto has_histogram = [](const Measurement &m) { return !m.statistics.histogram.empty(); };
    auto &measurements = series->measurements;
    const auto count = std::count_if(measurements.begin(), measurements.end(), has_histogram);
    if (static_cast<size_t>(count) <= options_.max_histograms) {
        return;
    }
    bool keep = true;  // the first one
    for (Measurement &measurement : measurements) {
        if (has_histogram(measurement)) {
            if (!keep) {
                std::vector<HistogramBin>().swap(measurement.statistics.histogram);
            }
            keep = !keep;
        }
    }
}

}  // namespace infini_train::utils
