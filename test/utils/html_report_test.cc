#include "infini_train/include/utils/html_report.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/core/generator.h"
#include "infini_train/include/tensor.h"

#include "test/support/temp_dir.h"

namespace infini_train::utils {
namespace {

using Json = nlohmann::json;
using ::infini_train::test::MessageOf;
using ::infini_train::test::TempDir;

// The data that the page draws.
Json DataOf(const std::string &page) {
    const std::string begin = "<script type=\"application/json\" id=\"data\">";
    const size_t from = page.find(begin) + begin.size();
    return Json::parse(page.substr(from, page.find("</script>", from) - from));
}

// Three layers over twelve steps, one of them dead at the end, one with a NaN, and a loss.
void FillLog(MonitorLog *log) {
    Generator generator(7);
    const std::string type = "Linear";
    for (int step = 0; step < 12; ++step) {
        const auto normal = Tensor::Randn({500}, DataType::kFLOAT32, {}, &generator);
        log->Measure(log->AddSeries(Quantity::kOutput, "fc1", type), *normal->Mul(1 + 0.2 * step)->Add(0.1 * step));
        log->Measure(log->AddSeries(Quantity::kOutput, "relu", "Relu"), *normal->Sub(0.3 * step)->Relu());
        const auto bad = Tensor::FromVector<double>({1, step == 7 ? std::nan("") : 2.0, 3});
        log->Measure(log->AddSeries(Quantity::kOutput, "out", type), *bad);
        log->Measure(log->AddSeries(Quantity::kGradient, "fc1.weight", "(5, 100)"), *normal->Mul(std::pow(0.3, step)));
        log->Measure(log->AddSeries(Quantity::kParameter, "fc1.weight", "(5, 100)"), *normal);
        log->Measure(log->AddSeries(Quantity::kUpdate, "fc1.weight", "(5, 100)"), *normal->Mul(1e-3));
        log->AddScalar("loss", 2.3 * std::pow(0.8, step));
        log->NextStep();
    }
}

TEST(HtmlReport, DataByHand) {
    MonitorLog log;
    log.Measure(log.AddSeries(Quantity::kOutput, "fc", "Linear"), *Tensor::FromVector<double>({1, 3, 0, 0}));
    log.AddScalar("loss", 0.123456789);
    log.NextStep();
    log.Measure(0, *Tensor::FromVector<double>({std::nan("")}));
    log.AddScalar("loss", std::numeric_limits<double>::infinity());
    log.NextStep();
    const Json data = DataOf(HtmlReport(log, {.title = "A </script><b> & \"title\"", .subtitle = "sub"}));
    EXPECT_EQ(data["title"], "A </script><b> & \"title\"");
    EXPECT_EQ(data["steps"], 2);
    EXPECT_EQ(data["scalars"][0]["name"], "loss");
    EXPECT_EQ(data["scalars"][0]["values"], Json::parse("[0.12346, null]"));
    const Json &series = data["series"][0];
    EXPECT_EQ(series["name"], "fc");
    EXPECT_EQ(series["steps"], Json::parse("[0, 1]"));
    EXPECT_EQ(series["count"], Json::parse("[4, 1]"));
    EXPECT_EQ(series["mean"], Json::parse("[1, null]"));
    EXPECT_EQ(series["std"], Json::parse("[1.2247, null]"));
    EXPECT_EQ(series["rms"], Json::parse("[1.5811, null]"));
    EXPECT_EQ(series["zeros"], Json::parse("[0.5, 0]"));
    EXPECT_EQ(series["bad"], Json::parse("[0, 1]"));
    // 1 and 3, each half of what isn't zero, at the two ends of the range.
    const Json &histograms = series["histograms"];
    EXPECT_EQ(histograms["low"], 1);
    EXPECT_EQ(histograms["high"], 3);
    EXPECT_EQ(histograms["steps"], Json::parse("[0]"));
    double sum = 0;
    for (const double share : histograms["rows"][0]) {
        sum += share;
    }
    EXPECT_NEAR(sum, 0.5, 1e-4);
    EXPECT_EQ(histograms["rows"][0][63], 0.25);
    EXPECT_EQ(data["findings"][0]["symptom"], "non-finite");
}

TEST(HtmlReport, ThePageStandsAlone) {
    MonitorLog log;
    FillLog(&log);
    const std::string page = HtmlReport(log, {.title = "A </script><b> title"});
    EXPECT_NE(page.find("<title>A &lt;/script>&lt;b> title</title>"), std::string::npos);
    // No address but the name of the SVG namespace, and nothing that is loaded.
    for (size_t at = page.find("://"); at != std::string::npos; at = page.find("://", at + 1)) {
        EXPECT_EQ(page.substr(at - 4, 31), "http://www.w3.org/2000/svg';\n\n/") << page.substr(at - 20, 60);
    }
    for (const char *loads : {" src=", "<link", "@import", "url(", "fetch("}) {
        EXPECT_EQ(page.find(loads), std::string::npos) << loads;
    }
}

TEST(HtmlReport, LongRunsAreThinned) {
    MonitorLog log({.histograms = false});
    for (int step = 0; step < 1000; ++step) {
        log.Measure(log.AddSeries(Quantity::kOutput, "fc", "Linear"), *Tensor::Full({2}, step));
        log.NextStep();
    }
    const Json series = DataOf(HtmlReport(log, {.max_columns = 50}))["series"][0];
    ASSERT_EQ(series["steps"].size(), 50U);
    EXPECT_EQ(series["steps"][0], 0);
    EXPECT_EQ(series["steps"][49], 999);
    EXPECT_EQ(series["mean"][49], 999);
    EXPECT_TRUE(series["histograms"]["rows"].empty());
}

TEST(HtmlReport, AnEmptyLog) {
    EXPECT_TRUE(DataOf(HtmlReport(MonitorLog()))["series"].empty());
}

TEST(HtmlReport, WhatCannotBeWritten) {
    const TempDir dir;
    const std::string path = dir.path() + "/none/report.html";
    EXPECT_EQ(MessageOf<IoError>([&] { WriteHtmlReport(MonitorLog(), path); }),
              "WriteHtmlReport: can't write '" + path + "': No such file or directory");
}

// A page for read_html_report.py, which opens it in a browser.
TEST(HtmlReport, ForTheBrowser) {
    const TempDir dir;
    const char *wanted = std::getenv("INFINI_TRAIN_TEST_OUTPUT");
    MonitorLog log;
    FillLog(&log);
    WriteHtmlReport(log, std::string(wanted != nullptr ? wanted : dir.path().c_str()) + "/report.html",
                    {.title = "A </script><b> title", .subtitle = "of a test"});
}

}  // namespace
}  // namespace infini_train::utils
