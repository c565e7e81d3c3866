#include "example/common/confusion_matrix.h"

#include <cmath>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"

#include "test/support/temp_dir.h"

namespace infini_train::example {
namespace {

using ::infini_train::test::MessageOf;

ConfusionMatrix ThreeClasses() {
    ConfusionMatrix matrix({"cat", "dog", "emu"});
    const int64_t counts[3][3] = {{8, 2, 0}, {1, 3, 0}, {0, 3, 0}};
    for (int64_t truth = 0; truth < 3; ++truth) {
        for (int64_t answer = 0; answer < 3; ++answer) {
            for (int64_t i = 0; i < counts[truth][answer]; ++i) {
                matrix.Add(truth, answer);
            }
        }
    }
    return matrix;
}

TEST(ConfusionMatrixTest, Counts) {
    const ConfusionMatrix matrix = ThreeClasses();
    EXPECT_EQ(matrix.Count(0, 1), 2);
    EXPECT_EQ(matrix.Total(), 17);
    EXPECT_EQ(matrix.Correct(), 11);
    EXPECT_DOUBLE_EQ(matrix.Accuracy(), 11.0 / 17);
    EXPECT_DOUBLE_EQ(matrix.Recall(1), 0.75);
    EXPECT_DOUBLE_EQ(matrix.Precision(1), 0.375);
    EXPECT_TRUE(std::isnan(matrix.Precision(2)));
}

TEST(ConfusionMatrixTest, PrintsNamesWhereTheyFit) {
    EXPECT_EQ(ThreeClasses().ToString(Terminal()),
              "true class    cat    dog    emu   recall\n"
              "cat             8      2      .   80.0 %\n"
              "dog             1      3      .   75.0 %\n"
              "emu             .      3      .    0.0 %\n"
              "precision    89 %   38 %      -   64.7 %\n"
              "\n"
              "Most often confused\n"
              "  emu taken for dog: 3\n"
              "  cat taken for dog: 2\n"
              "  dog taken for cat: 1\n");
}

TEST(ConfusionMatrixTest, PrintsNumbersWhereTheNamesDoNotFit) {
    Terminal terminal;
    terminal.width = 30;
    EXPECT_EQ(ThreeClasses().ToString(terminal).substr(0, 80),
              "true class       0     1     2   recall\n"
              "0 cat            8     2     .   80.0 %\n");
}

TEST(ConfusionMatrixTest, ColoursRightAndWrong) {
    Terminal terminal;
    terminal.color = ColorDepth::kBasic;
    const std::string text = ThreeClasses().ToString(terminal);
    EXPECT_NE(text.find("\x1b[32m    8\x1b[0m"), std::string::npos);
    EXPECT_NE(text.find("\x1b[31m    2\x1b[0m"), std::string::npos);
}

TEST(ConfusionMatrixTest, RefusesClassesOutOfRange) {
    ConfusionMatrix matrix({"a", "b"});
    EXPECT_EQ(MessageOf<IndexError>([&] { matrix.Add(0, 2); }), "ConfusionMatrix: expected a class in [0, 2), got 2");
    EXPECT_EQ(MessageOf<IndexError>([&] { matrix.Add(-1, 0); }), "ConfusionMatrix: expected a class in [0, 2), got -1");
    EXPECT_EQ(MessageOf<ValueError>([] { ConfusionMatrix({}); }),
              "ConfusionMatrix: expected at least one class, got none");
    EXPECT_TRUE(std::isnan(matrix.Accuracy()));
}

}  // namespace
}  // namespace infini_train::example
