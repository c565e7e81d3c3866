#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "infini_train/include/common/export.h"
#include "infini_train/include/utils/diagnosis.h"
#include "infini_train/include/utils/monitor_log.h"

namespace infini_train::utils {

struct HtmlReportOptions {
    std::string title = "Training report";
    std::string subtitle = {};  ///< of what run
    size_t max_columns = 120;   ///< steps of a heat map or a line; of more, evenly spaced ones are shown
    size_t max_ridges = 16;     ///< steps whose histogram is drawn
    DiagnosisOptions diagnosis = {};
};

/// A report on what a log holds, as one HTML page that needs nothing else and no network: what stands out in words,
/// scalars over steps, heat maps of layers by steps, per layer the range over steps and the histograms, and a table.
INFINI_TRAIN_EXPORT std::string HtmlReport(const MonitorLog &log, const HtmlReportOptions &options = {});

/// Writes it to a file. Throws IoError with the path and the system's reason.
INFINI_TRAIN_EXPORT void WriteHtmlReport(const MonitorLog &log, const std::string &path,
                                         const HtmlReportOptions &options = {});

}  // namespace infini_train::utils
