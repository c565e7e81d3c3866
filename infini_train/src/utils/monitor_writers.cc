#include "infini_train/include/utils/monitor_writers.h"

namespace infini_train::utils {

CsvSink::CsvSink(const std::string &path)
    : csv_(path,
           {"step", "quantity", "name", "type", "count", "mean", "std", "min", "max", "rms", "zeros", "non_finite"}) {}

void CsvSink::Write(const MonitorStep &step) {
    for (const auto &[series, s] : step.measurements) {
        csv_.Row({step.step, ToString(series->quantity), series->name, series->type, s->count, s->mean, s->std, s->min,
                  s->max, s->RootMeanSquare(), s->ZeroShare(), s->NonFiniteShare()});
    }
}

TensorBoardSink::TensorBoardSink(const std::string &directory) : writer_(directory) {}

void TensorBoardSink::Write(const MonitorStep &step) {
    for (const auto &[name, value] : step.scalars) {
        writer_.AddScalar(name, value, step.step);
    }
    for (const auto &[series, s] : step.measurements) {
        const std::string quantity = ToString(series->quantity);
        const auto scalar = [&, &series = series](const char *what, double value) {
            writer_.AddScalar(quantity + "_" + what + "/" + series->name, value, step.step);
        };
        scalar("mean", s->mean);
        scalar("std", s->std);
        scalar("rms", s->RootMeanSquare());
        scalar("zeros", s->ZeroShare());
        scalar("non_finite", s->NonFiniteShare());
        if (!s->histogram.empty()) {
            writer_.AddHistogram(quantity + "/" + series->name, *s, step.step);
        }
    }
}

}  // namespace infini_train::utils
