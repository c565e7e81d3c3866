#include <cmath>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/nn/modules/activations.h"
#include "infini_train/include/nn/modules/container.h"
#include "infini_train/include/nn/modules/linear.h"
#include "infini_train/include/optimizer.h"
#include "infini_train/include/tensor.h"
#include "infini_train/include/utils/activation_monitor.h"
#include "infini_train/include/utils/gradient_flow.h"
#include "infini_train/include/utils/monitor_log.h"
#include "infini_train/include/utils/monitor_writers.h"

#include "test/support/temp_dir.h"

namespace infini_train::utils {
namespace {

// A layer of two inputs and outputs, x -> (x0 + 2 x1, 3 x0 - x1) + (0, -1), and what isn't negative of that.
std::shared_ptr<nn::Sequential> SmallNet() {
    auto linear = std::make_shared<nn::Linear>(2, 2);
    linear->LoadStateDict(
        {{"weight", Tensor::FromVector<float>({1, 2, 3, -1}, {{2, 2}})}, {"bias", Tensor::FromVector<float>({0, -1})}});
    return std::make_shared<nn::Sequential>(linear, std::make_shared<nn::Relu>());
}

// The layer gives (3, 1) and (-1, 4.75) for it.
TensorPtr SmallInput() {
    return Tensor::FromVector<float>({1, 1, 1.5F, -1.25F}, {{2, 2}});
}

const MeasurementSeries &Find(const MonitorLog &log, Quantity quantity, const std::string &name) {
    for (const MeasurementSeries &series : log.series()) {
        if (series.quantity == quantity && series.name == name) {
            return series;
        }
    }
    throw IndexError(std::string("no series ") + ToString(quantity) + " " + name);
}

TEST(ActivationMonitor, OutputsByHand) {
    const auto net = SmallNet();
    const auto log = std::make_shared<MonitorLog>();
    const ActivationMonitor monitor(log, *net);
    (*net)({SmallInput()});
    ASSERT_EQ(log->series().size(), 2U);
    const MeasurementSeries &linear = Find(*log, Quantity::kOutput, "0");
    EXPECT_EQ(linear.type, "Linear");
    ASSERT_EQ(linear.measurements.size(), 1U);
    const TensorStatistics &s = linear.measurements[0].statistics;  // of 3, 1, -1, 4.75
    EXPECT_DOUBLE_EQ(s.mean, 7.75 / 4);
    EXPECT_NEAR(s.std, std::sqrt((9 + 1 + 1 + 22.5625) / 4 - 1.9375 * 1.9375), 1e-6);
    EXPECT_EQ(s.min, -1);
    EXPECT_EQ(s.max, 4.75);
    EXPECT_EQ(s.zeros, 0);
    EXPECT_EQ(Find(*log, Quantity::kOutput, "1").measurements[0].statistics.ZeroShare(), 0.25);
}

TEST(ActivationMonitor, EveryFewStepsAndCallsOfOneStepTogether) {
    const auto net = SmallNet();
    const auto log = std::make_shared<MonitorLog>(MonitorOptions{.every = 3});
    const ActivationMonitor monitor(log, *net);
    for (int step = 0; step < 7; ++step) {
        (*net)({SmallInput()});
        (*net)({SmallInput()->Mul(2)});
        log->NextStep();
    }
    EXPECT_EQ(log->step(), 7);
    const auto &measurements = Find(*log, Quantity::kOutput, "0").measurements;
    ASSERT_EQ(measurements.size(), 3U);
    EXPECT_EQ(measurements[1].step, 3);
    EXPECT_EQ(measurements[2].step, 6);
    const TensorStatistics &s = measurements[1].statistics;  // of 3, 1, -1, 4.75 and 6, 3, -2, 10.5
    EXPECT_EQ(s.count, 8);
    EXPECT_DOUBLE_EQ(s.mean, 25.25 / 8);
    EXPECT_NEAR(s.std, std::sqrt((33.5625 + 159.25) / 8 - std::pow(25.25 / 8, 2)), 1e-6);
    EXPECT_EQ(s.max, 10.5);
    int64_t counted = 0;
    for (const HistogramBin &bin : s.histogram) {
        counted += bin.count;
    }
    EXPECT_EQ(counted, 8);
    EXPECT_GT(log->Seconds(), 0);
}

TEST(ActivationMonitor, EvaluationIsLeftOutUnlessWanted) {
    const auto net = SmallNet();
    const auto log = std::make_shared<MonitorLog>();
    {
        const ActivationMonitor monitor(log, *net);
        net->Eval();
        (*net)({SmallInput()});
        EXPECT_TRUE(log->series()[0].measurements.empty());
    }
    const ActivationMonitor monitor(log, {{"layer", (*net)[0]}}, {.in_evaluation = true});
    (*net)({SmallInput()});
    EXPECT_EQ(Find(*log, Quantity::kOutput, "layer").measurements.size(), 1U);
    EXPECT_TRUE(Find(*log, Quantity::kOutput, "0").measurements.empty());  // its monitor is gone
}

TEST(ActivationMonitor, Errors) {
    const auto net = SmallNet();
    const auto log = std::make_shared<MonitorLog>();
    EXPECT_THROW(ActivationMonitor(nullptr, *net), ValueError);
    EXPECT_THROW(ActivationMonitor(log, NamedModuleList()), ValueError);
    EXPECT_THROW(ActivationMonitor(log, {{"none", nullptr}}), ValueError);
    EXPECT_THROW(GradientFlow(log, {{"none", nullptr}}), ValueError);
    EXPECT_THROW(MonitorLog({.every = 0}), ValueError);
    EXPECT_THROW(MonitorLog({.max_histograms = 1}), ValueError);
    EXPECT_THROW(log->AddSink(nullptr), ValueError);
}

TEST(GradientFlow, GradientsAndUpdatesByHand) {
    const auto net = SmallNet();
    const auto log = std::make_shared<MonitorLog>();
    GradientFlow flow(log, *net);
    optimizers::SGD optimizer(net->Parameters(), 0.5);
    flow.WatchUpdates(optimizer);
    (*net)({SmallInput()})[0]->Sum()->Backward();
    optimizer.Step();

    // The gradient is 1 everywhere at the ReLU, and 0 where the layer gave -1.
    EXPECT_EQ(Find(*log, Quantity::kOutputGradient, "1").measurements[0].statistics.mean, 1);
    EXPECT_EQ(Find(*log, Quantity::kOutputGradient, "0").measurements[0].statistics.mean, 0.75);
    EXPECT_EQ(Find(*log, Quantity::kOutputGradient, "0").measurements[0].statistics.zeros, 1);
    // (1, 1) from the first sample and, for the second output alone, (1.5, -1.25).
    const TensorStatistics &weight = Find(*log, Quantity::kGradient, "0.weight").measurements[0].statistics;
    EXPECT_EQ(weight.mean, (1 + 1 + 2.5 - 0.25) / 4);
    EXPECT_EQ(weight.max, 2.5);
    EXPECT_NEAR(weight.Norm(), std::sqrt(1 + 1 + 6.25 + 0.0625), 1e-6);
    EXPECT_EQ(Find(*log, Quantity::kGradient, "0.bias").measurements[0].statistics.mean, 1.5);
    EXPECT_EQ(Find(*log, Quantity::kParameter, "0.weight").measurements[0].statistics.mean, 1.25);
    EXPECT_EQ(Find(*log, Quantity::kUpdate, "0.weight").measurements[0].statistics.min, -1.25);
    EXPECT_EQ(Find(*log, Quantity::kUpdate, "0.bias").measurements[0].statistics.mean, -0.75);
    EXPECT_EQ(Find(*log, Quantity::kGradient, "0.weight").type, "(2, 2)");
}

TEST(GradientFlow, TheLastAccumulationOfAStepCounts) {
    const auto net = SmallNet();
    const auto log = std::make_shared<MonitorLog>();
    const GradientFlow flow(log, *net);
    for (int i = 0; i < 2; ++i) {
        (*net)({SmallInput()})[0]->Sum()->Backward();
    }
    const auto &measurements = Find(*log, Quantity::kGradient, "0.bias").measurements;
    ASSERT_EQ(measurements.size(), 1U);
    EXPECT_EQ(measurements[0].statistics.count, 2);
    EXPECT_EQ(measurements[0].statistics.mean, 3);  // twice (1, 2)
    EXPECT_EQ(Find(*log, Quantity::kOutputGradient, "1").measurements[0].statistics.count, 8);
}

TEST(GradientFlow, LeavesNoHooksBehind) {
    const auto net = SmallNet();
    const auto log = std::make_shared<MonitorLog>(MonitorOptions{.every = 2});
    { const GradientFlow flow(log, *net); }
    (*net)({SmallInput()})[0]->Sum()->Backward();
    EXPECT_TRUE(Find(*log, Quantity::kGradient, "0.bias").measurements.empty());
    const GradientFlow flow(log, {{"", net}});
    log->NextStep();  // step 1 isn't due
    (*net)({SmallInput()})[0]->Sum()->Backward();
    EXPECT_TRUE(Find(*log, Quantity::kGradient, "0.bias").measurements.empty());
    EXPECT_TRUE(Find(*log, Quantity::kOutputGradient, "Sequential").measurements.empty());
}

TEST(MonitorLog, ThinsHistogramsAndKeepsTheRest) {
    MonitorLog log({.max_histograms = 4});
    const size_t series = log.AddSeries(Quantity::kOutput, "x", "Test");
    EXPECT_EQ(log.AddSeries(Quantity::kOutput, "x", "Test"), series);
    for (int step = 0; step < 20; ++step) {
        log.Measure(series, *Tensor::Ones({3}));
        log.NextStep();
    }
    const auto &measurements = log.series()[series].measurements;
    ASSERT_EQ(measurements.size(), 20U);
    size_t kept = 0;
    for (const Measurement &m : measurements) {
        EXPECT_EQ(m.statistics.mean, 1);
        kept += m.statistics.histogram.empty() ? 0 : 1;
    }
    EXPECT_LE(kept, 4U);
    EXPECT_GE(kept, 2U);
    EXPECT_FALSE(measurements[0].statistics.histogram.empty());
}

TEST(MonitorLog, ThreadsMeasureAtOnce) {
    MonitorLog log;
    const auto work = [&](const std::string &name) {
        for (int i = 0; i < 100; ++i) {
            log.Measure(log.AddSeries(Quantity::kOutput, name, "Test"), *Tensor::Full({10}, i));
            log.Measure(log.AddSeries(Quantity::kOutput, "both", "Test"), *Tensor::Ones({10}));
            log.AddScalar(name, i);
        }
    };
    std::thread first(work, "first");
    std::thread second(work, "second");
    first.join();
    second.join();
    EXPECT_EQ(Find(log, Quantity::kOutput, "both").measurements[0].statistics.count, 2000);
    EXPECT_DOUBLE_EQ(Find(log, Quantity::kOutput, "first").measurements[0].statistics.mean, 49.5);
    ASSERT_EQ(log.scalars().size(), 2U);
    EXPECT_EQ(log.scalars()[0].values, std::vector<double>{99});
}

TEST(MonitorLog, SinksGetCompleteSteps) {
    struct Sink : MonitorSink {
        void Write(const MonitorStep &step) override {
            steps.push_back(step.step);
            scalars += step.scalars.size();
            measurements += step.measurements.size();
        }
        std::vector<int64_t> steps;
        size_t scalars = 0;
        size_t measurements = 0;
    };
    MonitorLog log;
    const auto sink = std::make_shared<Sink>();
    log.AddSink(sink);
    log.AddScalar("loss", 1);
    log.AddScalar("loss", 2);
    log.Measure(log.AddSeries(Quantity::kOutput, "x", "Test"), *Tensor::Ones({3}));
    log.NextStep();
    log.NextStep();  // nothing happened in it
    log.AddScalar("loss", 3);
    log.NextStep();
    EXPECT_EQ(sink->steps, (std::vector<int64_t>{0, 2}));
    EXPECT_EQ(sink->scalars, 2U);
    EXPECT_EQ(sink->measurements, 1U);
    EXPECT_EQ(log.scalars()[0].values, (std::vector<double>{2, 3}));
}

TEST(CsvSink, Rows) {
    const test::TempDir dir;
    MonitorLog log;
    log.AddSink(std::make_shared<CsvSink>(dir.path() + "/m.csv"));
    log.Measure(log.AddSeries(Quantity::kGradient, "fc.weight", "(1, 4)"),
                *Tensor::FromVector<double>({3, 0, -3, std::nan("")}));
    log.NextStep();
    std::ifstream file(dir.path() + "/m.csv");
    const std::string contents{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(contents,
              "step,quantity,name,type,count,mean,std,min,max,rms,zeros,non_finite\n"
              "0,gradient,fc.weight,\"(1, 4)\",4,0,2.449489742783178,-3,3,2.449489742783178,0.25,0.25\n");
}

}  // namespace
}  // namespace infini_train::utils
