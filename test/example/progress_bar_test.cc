#include "example/common/progress_bar.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"

#include "test/support/temp_dir.h"

namespace infini_train::example {
namespace {

using ::infini_train::test::MessageOf;

class ProgressBarTest : public ::testing::Test {
protected:
    ProgressBarTest() {
        terminal_.is_terminal = true;
        terminal_.width = 100;
    }

    std::function<double()> Clock() {
        return [this] { return now_; };
    }

    // What was written since the last call.
    std::string Written() {
        std::string text = out_.str();
        out_.str("");
        return text;
    }

    double now_ = 50;
    std::ostringstream out_;
    Terminal terminal_;
};

TEST_F(ProgressBarTest, DrawsOneLineOverAndOver) {
    ProgressBar bar("Epoch 1/5", 60000, out_, terminal_, Clock());
    EXPECT_EQ(Written(), "");
    now_ = 52;
    bar.Update(15000, {{"loss", "0.523"}, {"accuracy", "81.2 %"}});
    EXPECT_EQ(Written(),
              "\rEpoch 1/5 [====>              ]  25 %  15000/60000  loss 0.523  accuracy 81.2 %  7.50k/s  0:06 left");
    now_ = 58;
    bar.Finish(60000, {{"loss", "0.4"}});
    EXPECT_EQ(
        Written(),
        "\rEpoch 1/5 [============================] 100 %  60000/60000  loss 0.4  7.50k/s  in 0:08            \n");
}

TEST_F(ProgressBarTest, CountsFromWhereItStarts) {
    ProgressBar bar("e", 100, out_, terminal_, Clock());
    bar.StartAt(60);
    now_ = 60;
    bar.Update(80, {});  // 20 in 10 s
    EXPECT_NE(Written().find("80 %   80/100  2.00/s  0:10 left"), std::string::npos);
    bar.ShowRate(false);
    bar.Finish(90, {{"loss", "1"}});
    EXPECT_NE(Written().find("90/100  loss 1  in 0:10"), std::string::npos);
    Terminal file;
    ProgressBar lines("e", 100, out_, file, Clock());
    lines.StartAt(60);
    EXPECT_FALSE(lines.IsDue(65));
    EXPECT_TRUE(lines.IsDue(70));
}

TEST_F(ProgressBarTest, LeavesRoomForOtherText) {
    ProgressBar bar("e", 10, out_, terminal_, Clock());
    bar.Interrupt();
    EXPECT_EQ(Written(), "");
    bar.Update(1, {});
    Written();
    bar.Interrupt();
    EXPECT_EQ(Written(), "\n");
    bar.Interrupt();
    EXPECT_EQ(Written(), "");
    bar.Update(2, {});  // at once
    EXPECT_EQ(Written().substr(0, 3), "\re ");
}

TEST_F(ProgressBarTest, DrawsAtMostTenTimesASecond) {
    ProgressBar bar("e", 1000, out_, terminal_, Clock());
    int drawn = 0;
    for (int i = 1; i <= 1000; ++i) {
        now_ = 50 + i * 0.001;
        drawn += bar.IsDue(i) ? 1 : 0;
        bar.Update(i, {});
    }
    EXPECT_LE(drawn, 11);
    EXPECT_GE(drawn, 9);
    const std::string text = Written();
    EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), drawn);
    EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST_F(ProgressBarTest, Utf8BarsHaveEighths) {
    terminal_.utf8 = true;
    terminal_.width = 49;
    ProgressBar bar("e", 32, out_, terminal_, Clock());
    now_ = 51;
    // 48 columns, less 3 for the label and spaces and 31 for the rest, leave 14: two ends and 12 cells, 11/32 of which
    // are 4 and an eighth.
    bar.Update(11, {});
    EXPECT_EQ(Written(), "\re ▕████▏       ▏  34 %  11/32  11.0/s  0:02 left");
}

TEST_F(ProgressBarTest, FitsNarrowTerminals) {
    terminal_.width = 20;
    ProgressBar bar("epoch", 100, out_, terminal_, Clock());
    now_ = 51;
    bar.Update(10, {{"loss", "1.0"}});
    EXPECT_EQ(Written(), "\repoch  10 %   10/10");
}

TEST_F(ProgressBarTest, AFileGetsALineForEachTenth) {
    ProgressBar bar("Epoch 1/5", 1000, out_, Terminal(), Clock());
    for (int i = 1; i <= 1000; ++i) {
        now_ = 50 + i * 0.01;
        bar.Update(i, {{"loss", "0.5"}});
    }
    const std::string text = Written();
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 10);
    EXPECT_EQ(text.find('\r'), std::string::npos);
    EXPECT_EQ(text.substr(0, text.find('\n')), "Epoch 1/5   10 %   100/1000  loss 0.5  100/s  0:09 left");
    bar.Finish(1000, {});
    EXPECT_EQ(Written(), "Epoch 1/5  100 %  1000/1000  100/s  in 0:10\n");
}

TEST_F(ProgressBarTest, AnInterruptedEpochSaysHowFarItCame) {
    ProgressBar bar("e", 200, out_, Terminal(), Clock());
    now_ = 54;
    bar.Finish(51, {});
    EXPECT_EQ(Written(), "e   25 %   51/200  12.8/s  in 0:04\n");
}

TEST_F(ProgressBarTest, AnEmptyLoopIsDone) {
    ProgressBar bar("e", 0, out_, Terminal(), Clock());
    bar.Finish(0, {});
    EXPECT_EQ(Written(), "e  100 %  0/0  -/s  in 0:00\n");
    EXPECT_TRUE(std::isnan(bar.Rate(0)));
}

TEST_F(ProgressBarTest, AnOpenLineIsEnded) {
    {
        ProgressBar bar("e", 10, out_, terminal_, Clock());
        bar.Update(1, {});
    }
    EXPECT_EQ(Written().back(), '\n');
}

TEST_F(ProgressBarTest, RefusesANegativeTotal) {
    EXPECT_EQ(MessageOf<ValueError>([&] { ProgressBar("e", -1, out_, terminal_, Clock()); }),
              "ProgressBar: expected a total of at least 0, got -1");
}

}  // namespace
}  // namespace infini_train::example
