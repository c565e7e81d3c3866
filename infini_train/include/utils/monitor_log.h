#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/utils/tensor_statistics.h"

namespace infini_train::utils {

/// What a series of measurements is of.
enum class Quantity {
    kOutput,          ///< of a module
    kOutputGradient,  ///< the loss's gradient by a module's output
    kGradient,        ///< of a parameter
    kParameter,       ///< a parameter before the optimizer's step
    kUpdate,          ///< what the step changed it by
};

/// `output`, `output_gradient`, `gradient`, `parameter`, `update`.
INFINI_TRAIN_EXPORT const char *ToString(Quantity quantity);

/// What was measured of one tensor at one step.
struct Measurement {
    int64_t step = 0;
    TensorStatistics statistics;
};

/// What was measured of one module or parameter, in the order of steps.
struct MeasurementSeries {
    Quantity quantity = Quantity::kOutput;
    std::string name;  ///< the path of the module or parameter
    std::string type;  ///< the module's type; of a parameter its dims
    std::vector<Measurement> measurements;
};

/// A number over the steps, such as the loss.
struct ScalarSeries {
    std::string name;
    std::vector<int64_t> steps;
    std::vector<double> values;
};

/// One step, as a MonitorSink is given it. Pointers are valid during the call.
struct MonitorStep {
    int64_t step = 0;
    std::vector<std::pair<const MeasurementSeries *, const TensorStatistics *>> measurements;
    std::vector<std::pair<std::string, double>> scalars;
};

/// Receives each step when it is complete; see monitor_writers.h.
class INFINI_TRAIN_EXPORT MonitorSink {
public:
    virtual ~MonitorSink() = default;
    virtual void Write(const MonitorStep &step) = 0;
};

struct MonitorOptions {
    int64_t every = 1;           ///< measures at the steps that are multiples of this
    bool histograms = true;      ///< cost two to three times as much as the rest
    size_t max_histograms = 64;  ///< kept of a series; when there are more, every other is dropped
};

/// What monitors and the training loop write into, and what reports are made of.
///
///     auto log = std::make_shared<utils::MonitorLog>(utils::MonitorOptions{.every = 10});
///     utils::ActivationMonitor activations(log, *model);
///     utils::GradientFlow gradients(log, *model);
///     log->AddSink(std::make_shared<utils::TensorBoardSink>("runs/first"));
///     for (const auto &[x, y] : loader) {
///         ...
///         log->AddScalar("loss", loss->Item<double>());
///         log->NextStep();
///     }
///     utils::WriteHtmlReport(*log, "report.html");
///
/// Measuring is safe from any thread. series(), scalars() and NextStep() are for one thread while no other measures.
class INFINI_TRAIN_EXPORT MonitorLog {
public:
    /// How a second measurement of a series at the same step is kept: together with the first, or in its place.
    enum class Again { kMerge, kReplace };

    /// Throws ValueError for every < 1 or max_histograms < 2.
    explicit MonitorLog(const MonitorOptions &options = {});

    /// The present step, from 0, and whether it is one to measure at.
    int64_t step() const { return step_.load(std::memory_order_relaxed); }
    bool IsDue() const { return step() % options_.every == 0; }

    /// Makes a series, or finds it if it is there; the number names it below.
    size_t AddSeries(Quantity quantity, const std::string &name, const std::string &type);
    /// Measures a tensor, at any step.
    void Measure(size_t series, const Tensor &tensor, Again again = Again::kMerge);
    /// Keeps a number with the present step, also one that isn't due. A second one of the same step replaces the first.
    void AddScalar(const std::string &name, double value);
    /// Ends the present step: the sinks are given what there is of it.
    void NextStep();
    void AddSink(std::shared_ptr<MonitorSink> sink);

    const MonitorOptions &options() const { return options_; }
    const std::vector<MeasurementSeries> &series() const { return series_; }
    const std::vector<ScalarSeries> &scalars() const { return scalars_; }
    /// The time that went into measuring and into the sinks.
    double Seconds() const { return static_cast<double>(nanoseconds_.load()) * 1e-9; }
    /// What Seconds() counts, for a scope of a monitor's own.
    class Clock;

private:
    void Thin(MeasurementSeries *series) const;

    const MonitorOptions options_;
    std::atomic<int64_t> step_{0};
    std::atomic<int64_t> nanoseconds_{0};
    std::mutex mutex_;
    std::map<std::pair<Quantity, std::string>, size_t> positions_;
    std::vector<MeasurementSeries> series_;
    std::vector<ScalarSeries> scalars_;
    std::vector<std::shared_ptr<MonitorSink>> sinks_;
};

}  // namespace infini_train::utils
