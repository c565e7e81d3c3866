#include "example/language_model/run_log.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "example/common/line_plot.h"

namespace infini_train::example {
namespace {

const std::vector<std::string> &Header() {
    static const std::vector<std::string> header = {"step",          "tokens",    "train_loss",       "validation_loss",
                                                    "learning_rate", "grad_norm", "tokens_per_second"};
    return header;
}

// The lines of a history up to a step; a line that was cut ends it.
std::vector<StepRecord> ReadHistory(const std::string &path, int64_t last_step) {
    std::ifstream file(path);
    std::string line;
    std::vector<StepRecord> records;
    std::getline(file, line);
    while (std::getline(file, line)) {
        std::istringstream fields(line);
        std::vector<double> values;
        for (std::string field; std::getline(fields, field, ',');) {
            values.push_back(field.empty() ? std::nan("") : std::strtod(field.c_str(), nullptr));
        }
        if (values.size() != Header().size() || static_cast<int64_t>(values[0]) > last_step) {
            break;
        }
        records.push_back({static_cast<int64_t>(values[0]), static_cast<int64_t>(values[1]), values[2], values[4],
                           values[5], values[6], values[3]});
    }
    return records;
}

// A running mean over about a hundredth of the points on either side, since single batches are noisy.
std::vector<double> Smoothed(const std::vector<double> &values) {
    const auto size = static_cast<int64_t>(values.size());
    const int64_t reach = size / 100;
    std::vector<double> sums(values.size() + 1, 0.0);
    for (int64_t i = 0; i < size; ++i) {
        sums[static_cast<size_t>(i + 1)] = sums[static_cast<size_t>(i)] + values[static_cast<size_t>(i)];
    }
    std::vector<double> smooth(values.size());
    for (int64_t i = 0; i < size; ++i) {
        const int64_t begin = std::max<int64_t>(i - reach, 0);
        const int64_t end = std::min(i + reach + 1, size);
        smooth[static_cast<size_t>(i)] =
            (sums[static_cast<size_t>(end)] - sums[static_cast<size_t>(begin)]) / static_cast<double>(end - begin);
    }
    return smooth;
}

}  // namespace

RunLog::RunLog(const std::string &folder, const std::string &tensorboard, int64_t resumed_step)
    : csv_path_((std::filesystem::path(folder) / "history.csv").string()),
      plot_path_((std::filesystem::path(folder) / "history.png").string()) {
    std::filesystem::create_directories(folder);
    if (resumed_step > 0) {
        records_ = ReadHistory(csv_path_, resumed_step);
    }
    csv_ = std::make_unique<utils::CsvWriter>(csv_path_, Header());
    for (const StepRecord &record : records_) {
        WriteRow(record);
    }
    if (!tensorboard.empty()) {
        tensorboard_ = std::make_unique<utils::TensorBoardWriter>(tensorboard);
    }
}

void RunLog::FirstValidation(double loss) {
    first_validation_ = loss;
    if (tensorboard_ != nullptr) {
        tensorboard_->AddScalar("loss/validation", loss, 0);
    }
}

void RunLog::Add(const StepRecord &record) {
    records_.push_back(record);
    WriteRow(record);
    if (tensorboard_ == nullptr) {
        return;
    }
    tensorboard_->AddScalar("loss/training", record.loss, record.step);
    tensorboard_->AddScalar("training/learning_rate", record.learning_rate, record.step);
    tensorboard_->AddScalar("training/grad_norm", record.grad_norm, record.step);
    tensorboard_->AddScalar("training/tokens_per_second", record.tokens_per_second, record.step);
    if (std::isfinite(record.validation_loss)) {
        tensorboard_->AddScalar("loss/validation", record.validation_loss, record.step);
        tensorboard_->AddScalar("validation/perplexity", std::exp(record.validation_loss), record.step);
    }
}

void RunLog::WriteRow(const StepRecord &record) {
    csv_->Row({record.step, record.tokens, record.loss,
               std::isfinite(record.validation_loss) ? utils::CsvCell(record.validation_loss) : utils::CsvCell(""),
               record.learning_rate, record.grad_norm, std::round(record.tokens_per_second)});
}

void RunLog::WritePlot(const std::string &title) const {
    if (records_.empty()) {
        return;
    }
    PlotSeries raw, smooth, validation, rate;
    for (const StepRecord &record : records_) {
        raw.x.push_back(static_cast<double>(record.step));
        raw.y.push_back(record.loss);
        rate.y.push_back(record.learning_rate);
        if (std::isfinite(record.validation_loss)) {
            validation.x.push_back(static_cast<double>(record.step));
            validation.y.push_back(record.validation_loss);
        }
    }
    if (std::isfinite(first_validation_)) {
        validation.x.insert(validation.x.begin(), 0.0);
        validation.y.insert(validation.y.begin(), first_validation_);
    }
    smooth.x = rate.x = raw.x;
    smooth.y = Smoothed(raw.y);
    raw.color = smooth.color = 0;
    raw.opacity = 0.25;
    smooth.name = "training";
    validation.name = "validation";
    validation.color = 1;
    validation.markers = true;
    PlotPanel loss, learning_rate;
    loss.title = "Loss";
    loss.y_label = "cross-entropy of a token";
    loss.series = {raw, smooth};
    if (!validation.x.empty()) {
        loss.series.push_back(validation);
    }
    learning_rate.title = "Learning rate";
    learning_rate.series = {rate};
    loss.x_label = learning_rate.x_label = "step";
    loss.whole_x = learning_rate.whole_x = true;
    PlotOptions options;
    options.title = title;
    WriteLinePlot(plot_path_, {loss, learning_rate}, options);
}

}  // namespace infini_train::example
