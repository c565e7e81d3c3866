#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "infini_train/include/utils/csv_writer.h"
#include "infini_train/include/utils/tensorboard_writer.h"

namespace infini_train::example {

/// What is known after a step of training.
struct StepRecord {
    int64_t step = 0;
    int64_t tokens = 0;  // of all steps so far
    double loss = 0;     // mean of the step's tokens, before its update
    double learning_rate = 0;
    double grad_norm = 0;  // before clipping
    double tokens_per_second = 0;
    double validation_loss = std::numeric_limits<double>::quiet_NaN();  // if there was a validation after it
};

/// The history of a run: history.csv with a line a step, event files for TensorBoard, and a plot.
class RunLog {
public:
    /// Makes the folder. Of a history that is there, the steps up to `resumed_step` are kept, the others are replaced;
    /// what isn't such a history is replaced, too. Empty `tensorboard`: no event files. Throws IoError.
    RunLog(const std::string &folder, const std::string &tensorboard, int64_t resumed_step);

    /// Before the first step, so that it has no line of its own in the CSV file.
    void FirstValidation(double loss);
    /// The steps have to come in order.
    void Add(const StepRecord &record);

    /// Loss over the steps and the learning rate, as a PNG file. Nothing if there was no step.
    void WritePlot(const std::string &title) const;

    const std::string &csv_path() const { return csv_path_; }
    const std::string &plot_path() const { return plot_path_; }
    bool IsEmpty() const { return records_.empty(); }

private:
    void WriteRow(const StepRecord &record);

    std::string csv_path_;
    std::string plot_path_;
    std::vector<StepRecord> records_;
    double first_validation_ = std::numeric_limits<double>::quiet_NaN();
    std::unique_ptr<utils::CsvWriter> csv_;
    std::unique_ptr<utils::TensorBoardWriter> tensorboard_;
};

}  // namespace infini_train::example
