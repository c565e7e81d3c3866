#include "infini_train/include/utils/diagnosis.h"

#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/tensor.h"

namespace infini_train::utils {
namespace {

class Diagnosis : public ::testing::Test {
protected:
    void Step(Quantity quantity, const std::string &name, const std::vector<double> &values) {
        log_.Measure(log_.AddSeries(quantity, name, "Test"), *Tensor::FromVector(values));
    }

    // "dead relu"
    std::vector<std::string> Short() const {
        std::vector<std::string> list;
        for (const Finding &finding : Diagnose(log_)) {
            list.push_back(std::string(ToString(finding.symptom)) + " " + finding.name);
        }
        return list;
    }

    MonitorLog log_;
};

TEST_F(Diagnosis, NothingToSay) {
    Step(Quantity::kOutput, "fc", {1, -2, 0, 0});
    Step(Quantity::kOutputGradient, "fc", {0.1, -0.2});
    Step(Quantity::kOutputGradient, "fc2", {0.01, -0.02});
    log_.AddSeries(Quantity::kOutput, "never called", "Test");
    EXPECT_EQ(Short(), std::vector<std::string>());
    EXPECT_TRUE(Diagnose(MonitorLog()).empty());
}

TEST_F(Diagnosis, EachSymptom) {
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    std::vector<double> mostly_zero(20, 0.0);
    mostly_zero[3] = 1;
    Step(Quantity::kOutput, "grows", {0.1, -0.1});
    Step(Quantity::kOutput, "small", {1e-5, -1e-5});
    Step(Quantity::kParameter, "w", {1, -1});
    Step(Quantity::kUpdate, "w", {0.25, 0.25});
    Step(Quantity::kParameter, "v", {1, -1});
    Step(Quantity::kUpdate, "v", {1e-3, 1e-3});
    log_.NextStep();
    Step(Quantity::kOutput, "small", {1e-2, -1e-2});  // grown, but from nothing
    Step(Quantity::kOutput, "relu", mostly_zero);
    Step(Quantity::kOutput, "same", {2, 2, 2});
    Step(Quantity::kOutput, "bad", {1, kNan, 2});
    Step(Quantity::kOutput, "grows", {30, -30});
    Step(Quantity::kGradient, "first", {1e-7, -1e-7});
    Step(Quantity::kGradient, "second", {1e-2, -1e-2});
    Step(Quantity::kGradient, "third", {1e-2, 1e-2});
    Step(Quantity::kGradient, "cut off", {0, 0});
    Step(Quantity::kGradient, "fourth", {1e-2, 1e-2});
    log_.NextStep();
    EXPECT_EQ(Short(), (std::vector<std::string>{"non-finite bad", "dead relu", "constant same", "no gradient cut off",
                                                 "vanishing first", "exploding grows", "unstable w"}));
    const std::vector<Finding> findings = Diagnose(log_);
    EXPECT_EQ(findings[0].text,
              "The outputs of bad held 1 NaN and 0 infinite values among 3 at step 1, for the first time.");
    EXPECT_EQ(findings[0].step, 1);
    EXPECT_EQ(findings[1].text, "The outputs of relu are zero to 95.0 %: most of its units are dead for these inputs.");
    EXPECT_EQ(findings[5].text, "The outputs of grows have grown from an RMS of 0.1 to 30, to 300 times as much.");
    EXPECT_EQ(findings[6].text,
              "The updates of w come to 25.0 % of the parameter in one step: the learning rate may be too high.");
    EXPECT_EQ(Diagnose(log_, {.dead_share = 0.99})[1].symptom, Symptom::kConstant);
}

}  // namespace
}  // namespace infini_train::utils
