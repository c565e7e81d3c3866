#include "infini_train/include/utils/html_report.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "infini_train/include/common/error.h"

#include "infini_train/src/common/format.h"
#include "report/assets.h"

namespace infini_train::utils {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kBins = 64;
// What a histogram leaves out at either end, so that a few outliers don't flatten the rest.
constexpr double kTail = 0.002;

// Five digits are more than a plot shows; what isn't finite becomes null.
Json Number(double value) {
    if (!std::isfinite(value) || value == 0) {
        return std::isfinite(value) ? Json(0) : Json(nullptr);
    }
    const double scale = std::pow(10.0, 4 - std::floor(std::log10(std::abs(value))));
    return std::isfinite(scale) && scale > 0 ? Json(std::round(value * scale) / scale) : Json(value);
}

Json Numbers(const std::vector<double> &values) {
    Json list = Json::array();
    std::transform(values.begin(), values.end(), std::back_inserter(list), Number);
    return list;
}

// At most `most` of `count` positions, evenly spaced, the first and the last among them.
std::vector<size_t> Evenly(size_t count, size_t most) {
    std::vector<size_t> positions;
    const size_t shown = std::min(count, std::max<size_t>(most, 2));
    for (size_t i = 0; i < shown; ++i) {
        positions.push_back(shown == 1 ? 0 : i * (count - 1) / (shown - 1));
    }
    return positions;
}

// Where all but the tails of some histograms' elements other than zeros lie.
std::pair<double, double> CommonRange(const std::vector<const TensorStatistics *> &all) {
    std::vector<HistogramBin> bins;
    double total = 0;
    for (const TensorStatistics *s : all) {
        for (const HistogramBin &bin : s->histogram) {
            if (bin.low != bin.high || bin.low != 0) {
                bins.push_back(bin);
                total += static_cast<double>(bin.count);
            }
        }
    }
    if (bins.empty()) {
        return {-1, 1};
    }
    std::sort(bins.begin(), bins.end(), [](const auto &a, const auto &b) { return a.low < b.low; });
    double below = 0;
    size_t first = 0;
    while ((below += static_cast<double>(bins[first].count)) < kTail * total) {
        ++first;
    }
    std::sort(bins.begin() + static_cast<std::ptrdiff_t>(first), bins.end(),
              [](const auto &a, const auto &b) { return a.high < b.high; });
    double above = 0;
    size_t last = bins.size() - 1;
    while (last > first && (above += static_cast<double>(bins[last].count)) < kTail * total) {
        --last;
    }
    const double low = bins[first].low;
    const double high = bins[last].high;
    const double least = 1e-6 * std::max({std::abs(low), std::abs(high), 1e-30});
    return high - low > least ? std::pair(low, high) : std::pair(low - least, high + least);
}

Json Histograms(const MeasurementSeries &series, size_t most) {
    std::vector<const Measurement *> with;
    for (const Measurement &m : series.measurements) {
        if (!m.statistics.histogram.empty()) {
            with.push_back(&m);
        }
    }
    std::vector<const TensorStatistics *> shown;
    Json steps = Json::array();
    for (const size_t i : Evenly(with.size(), most)) {
        shown.push_back(&with[i]->statistics);
        steps.push_back(with[i]->step);
    }
    const auto [low, high] = CommonRange(shown);
    Json rows = Json::array();
    for (const TensorStatistics *s : shown) {
        std::vector<HistogramBin> bins;
        const auto is_shown = [low = low, high = high](const HistogramBin &bin) {
            return bin.high >= low && bin.low <= high && (bin.low != 0 || bin.high != 0);
        };
        std::copy_if(s->histogram.begin(), s->histogram.end(), std::back_inserter(bins), is_shown);
        std::vector<double> counts = Rebin(bins, low, high, kBins);
        for (double &count : counts) {
            count /= static_cast<double>(std::max<int64_t>(s->Finite(), 1));
        }
        rows.push_back(Numbers(counts));
    }
    return {{"low", Number(low)}, {"high", Number(high)}, {"steps", steps}, {"rows", rows}};
}

Json Describe(const MeasurementSeries &series, const HtmlReportOptions &options) {
    Json result = {{"quantity", ToString(series.quantity)}, {"name", series.name}, {"type", series.type}};
    std::vector<size_t> positions = Evenly(series.measurements.size(), options.max_columns);
    Json steps = Json::array();
    Json counts = Json::array();
    for (const size_t i : positions) {
        steps.push_back(series.measurements[i].step);
        counts.push_back(series.measurements[i].statistics.count);
    }
    result["steps"] = steps;
    result["count"] = counts;
    const auto column = [&](const char *name, auto &&value) {
        Json list = Json::array();
        for (const size_t i : positions) {
            list.push_back(Number(value(series.measurements[i].statistics)));
        }
        result[name] = list;
    };
    column("mean", [](const TensorStatistics &s) { return s.mean; });
    column("std", [](const TensorStatistics &s) { return s.std; });
    column("min", [](const TensorStatistics &s) { return s.min; });
    column("max", [](const TensorStatistics &s) { return s.max; });
    column("rms", [](const TensorStatistics &s) { return s.Finite() > 0 ? s.RootMeanSquare() : NAN; });
    column("zeros", [](const TensorStatistics &s) { return s.ZeroShare(); });
    column("bad", [](const TensorStatistics &s) { return s.NonFiniteShare(); });
    result["histograms"] = Histograms(series, options.max_ridges);
    return result;
}

Json Describe(const ScalarSeries &series, size_t most) {
    Json steps = Json::array();
    Json values = Json::array();
    for (const size_t i : Evenly(series.steps.size(), most)) {
        steps.push_back(series.steps[i]);
        values.push_back(Number(series.values[i]));
    }
    return {{"name", series.name}, {"steps", steps}, {"values", values}};
}

Json Describe(const MonitorLog &log, const HtmlReportOptions &options) {
    Json data = {{"title", options.title},       {"subtitle", options.subtitle},     {"steps", log.step()},
                 {"every", log.options().every}, {"seconds", Number(log.Seconds())}, {"scalars", Json::array()},
                 {"series", Json::array()},      {"findings", Json::array()}};
    for (const ScalarSeries &series : log.scalars()) {
        data["scalars"].push_back(Describe(series, 10 * options.max_columns));
    }
    for (const MeasurementSeries &series : log.series()) {
        if (!series.measurements.empty()) {
            data["series"].push_back(Describe(series, options));
        }
    }
    for (const Finding &finding : Diagnose(log, options.diagnosis)) {
        data["findings"].push_back({{"symptom", ToString(finding.symptom)},
                                    {"quantity", ToString(finding.quantity)},
                                    {"name", finding.name},
                                    {"text", finding.text}});
    }
    return data;
}

std::string EscapeHtml(const std::string &text) {
    std::string escaped;
    for (const char c : text) {
        switch (c) {
            case '<':
                escaped += "&lt;";
                break;
            case '&':
                escaped += "&amp;";
                break;
            default:
                escaped += c;
        }
    }
    return escaped;
}

// JSON inside a script element: no text in it may end the element or open a comment.
std::string EscapeScript(const std::string &json) {
    std::string escaped;
    for (const char c : json) {
        escaped += c == '<' ? std::string("\\u003c") : std::string(1, c);
    }
    return escaped;
}

}  // namespace

std::string HtmlReport(const MonitorLog &log, const HtmlReportOptions &options) {
    const std::string json = Describe(log, options).dump(-1, ' ', false, Json::error_handler_t::replace);
    std::string page = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
    page += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
    page += "<title>" + EscapeHtml(options.title) + "</title>\n<style>\n" + report::kStyle + "</style>\n</head>\n";
    page += "<body>\n<main id=\"report\"></main>\n";
    page += "<noscript>This report draws itself with a script, which is turned off here.</noscript>\n";
    page += "<script type=\"application/json\" id=\"data\">" + EscapeScript(json) + "</script>\n";
    page += std::string("<script>\n") + report::kScript + "</script>\n</body>\n</html>\n";
    return page;
}

void WriteHtmlReport(const MonitorLog &log, const std::string &path, const HtmlReportOptions &options) {
    const std::string page = HtmlReport(log, options);
    std::ofstream file(path, std::ios::binary);
    if (!file || !file.write(page.data(), static_cast<std::streamsize>(page.size())) || !file.flush()) {
        Throw<IoError>("WriteHtmlReport: can't write '{}': {}", path, std::strerror(errno));
    }
}

}  // namespace infini_train::utils
