#include "infini_train/include/utils/diagnosis.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

namespace infini_train::utils {
namespace {

bool IsGradient(Quantity quantity) {
    return quantity == Quantity::kOutputGradient || quantity == Quantity::kGradient;
}

// "the outputs of fc1"
std::string Subject(const MeasurementSeries &series) {
    switch (series.quantity) {
        case Quantity::kOutput:
            return "the outputs of " + series.name;
        case Quantity::kOutputGradient:
            return "the gradient at the output of " + series.name;
        case Quantity::kGradient:
            return "the gradient of " + series.name;
        case Quantity::kParameter:
            return series.name;
        case Quantity::kUpdate:
            return "the updates of " + series.name;
    }
    return series.name;
}

std::string Capitalized(std::string text, const MeasurementSeries &series) {
    // The name of a parameter stays as it is.
    if (series.quantity != Quantity::kParameter) {
        text[0] = 'T';
    }
    return text;
}

std::string FormatPercent(double share) {
    return fmt::format("{:.1f} %", 100 * share);
}

class Doctor {
public:
    Doctor(const MonitorLog &log, const DiagnosisOptions &options) : log_(log), options_(options) {
        std::map<Quantity, std::vector<double>> all;
        for (const MeasurementSeries &series : log.series()) {
            if (!series.measurements.empty()) {
                all[series.quantity].push_back(Last(series).RootMeanSquare());
            }
        }
        for (auto &[quantity, values] : all) {
            const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
            std::nth_element(values.begin(), middle, values.end());
            medians_[quantity] = *middle;
        }
    }

    std::vector<Finding> Examine() {
        for (const MeasurementSeries &series : log_.series()) {
            if (!series.measurements.empty()) {
                Examine(series);
            }
        }
        std::stable_sort(findings_.begin(), findings_.end(),
                         [](const Finding &a, const Finding &b) { return a.symptom < b.symptom; });
        return std::move(findings_);
    }

private:
    static const TensorStatistics &Last(const MeasurementSeries &series) {
        return series.measurements.back().statistics;
    }

    void Add(Symptom symptom, const MeasurementSeries &series, int64_t step, const std::string &text) {
        findings_.push_back(
            {symptom, series.quantity, series.name, step, Capitalized(Subject(series) + " " + text, series)});
    }

    void Examine(const MeasurementSeries &series) {
        const auto bad = std::find_if(series.measurements.begin(), series.measurements.end(),
                                      [](const Measurement &m) { return m.statistics.NonFinite() > 0; });
        if (bad != series.measurements.end()) {
            const TensorStatistics &s = bad->statistics;
            Add(Symptom::kNonFinite, series, bad->step,
                fmt::format("held {} NaN and {} infinite values among {} at step {}, for the first time.", s.nans,
                            s.infs, s.count, bad->step));
        }
        if (Last(series).Finite() == 0) {
            return;
        }
        if (series.quantity == Quantity::kOutput) {
            ExamineOutput(series);
        } else if (IsGradient(series.quantity)) {
            ExamineGradient(series);
        } else if (series.quantity == Quantity::kUpdate) {
            ExamineUpdate(series);
        }
        if (series.quantity == Quantity::kOutput || IsGradient(series.quantity)) {
            ExamineGrowth(series);
        }
    }

    void ExamineOutput(const MeasurementSeries &series) {
        const TensorStatistics &last = Last(series);
        const int64_t step = series.measurements.back().step;
        if (last.ZeroShare() >= options_.dead_share) {
            Add(Symptom::kDead, series, step,
                fmt::format("are zero to {}: most of its units are dead for these inputs.",
                            FormatPercent(last.ZeroShare())));
        } else if (last.count > 1 && last.min == last.max) {
            Add(Symptom::kConstant, series, step, fmt::format("are all {:.4g}, whatever the input.", last.mean));
        }
    }

    void ExamineGradient(const MeasurementSeries &series) {
        const double rms = Last(series).RootMeanSquare();
        const double median = medians_[series.quantity];
        const int64_t step = series.measurements.back().step;
        if (rms == 0) {
            Add(Symptom::kNoGradient, series, step, "is zero throughout: nothing is learned from it.");
        } else if (rms < options_.vanishing_ratio * median) {
            Add(Symptom::kVanishing, series, step,
                fmt::format("has an RMS of {:.2g}, 1/{:.0f} of the median of all layers: little is learned there.", rms,
                            median / rms));
        }
    }

    void ExamineGrowth(const MeasurementSeries &series) {
        const double first = series.measurements.front().statistics.RootMeanSquare();
        const double rms = Last(series).RootMeanSquare();
        if (first > 0 && rms >= options_.exploding_rms && rms >= options_.exploding_growth * first) {
            Add(Symptom::kExploding, series, series.measurements.back().step,
                fmt::format("{} grown from an RMS of {:.2g} to {:.2g}, to {:.0f} times as much.",
                            series.quantity == Quantity::kOutput ? "have" : "has", first, rms, rms / first));
        }
    }

    void ExamineUpdate(const MeasurementSeries &series) {
        const auto parameter = std::find_if(log_.series().begin(), log_.series().end(), [&](const auto &other) {
            return other.quantity == Quantity::kParameter && other.name == series.name && !other.measurements.empty();
        });
        if (parameter == log_.series().end()) {
            return;
        }
        const double size = Last(*parameter).RootMeanSquare();
        const double rms = Last(series).RootMeanSquare();
        if (size > 0 && rms > options_.unstable_ratio * size) {
            Add(Symptom::kUnstable, series, series.measurements.back().step,
                fmt::format("come to {} of the parameter in one step: the learning rate may be too high.",
                            FormatPercent(rms / size)));
        }
    }

    const MonitorLog &log_;
    const DiagnosisOptions options_;
    std::map<Quantity, double> medians_;
    std::vector<Finding> findings_;
};

}  // namespace

const char *ToString(Symptom symptom) {
    switch (symptom) {
        case Symptom::kNonFinite:
            return "non-finite";
        case Symptom::kDead:
            return "dead";
        case Symptom::kConstant:
            return "constant";
        case Symptom::kNoGradient:
            return "no gradient";
        case Symptom::kVanishing:
            return "vanishing";
        case Symptom::kExploding:
            return "exploding";
        case Symptom::kUnstable:
            return "unstable";
    }
    return "unknown";
}

std::vector<Finding> Diagnose(const MonitorLog &log, const DiagnosisOptions &options) {
    return Doctor(log, options).Examine();
}

}  // namespace infini_train::utils
