#pragma once

#include <string>

#include "infini_train/include/common/export.h"
#include "infini_train/include/utils/csv_writer.h"
#include "infini_train/include/utils/monitor_log.h"
#include "infini_train/include/utils/tensorboard_writer.h"

namespace infini_train::utils {

/// A CSV file with a row for each measurement: step, quantity, name, type, count, mean, std, min, max, rms, zeros and
/// non_finite (both as shares, 0 to 1). Scalars don't appear in it. Throws what CsvWriter does.
class INFINI_TRAIN_EXPORT CsvSink : public MonitorSink {
public:
    explicit CsvSink(const std::string &path);
    void Write(const MonitorStep &step) override;

private:
    CsvWriter csv_;
};

/// Event files for TensorBoard: the scalars under their names; of each series, under its quantity and name, the
/// histogram (`output/fc1`) and, beside it, `output_mean/fc1`, `output_std/fc1`, `output_rms/fc1`, `output_zeros/fc1`
/// and `output_non_finite/fc1`. Throws what TensorBoardWriter does.
class INFINI_TRAIN_EXPORT TensorBoardSink : public MonitorSink {
public:
    explicit TensorBoardSink(const std::string &directory);
    void Write(const MonitorStep &step) override;

    /// To write other things into the same file.
    TensorBoardWriter &writer() { return writer_; }

private:
    TensorBoardWriter writer_;
};

}  // namespace infini_train::utils
