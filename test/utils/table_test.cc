#include "infini_train/include/utils/table.h"

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"

#include "test/support/tensors.h"

namespace infini_train::utils {
namespace {

using test::Thrown;

TEST(TableTest, AlignsInAscii) {
    Table table({"epoch", "loss"}, {Table::kLeft, Table::kRight});
    table.AddRow({"1", "0.5"});
    table.AddSeparator();
    table.AddRow({"twelve", "12.25"});
    EXPECT_EQ(table.ToString(Terminal()),
              "+--------+-------+\n"
              "| epoch  |  loss |\n"
              "+--------+-------+\n"
              "| 1      |   0.5 |\n"
              "+--------+-------+\n"
              "| twelve | 12.25 |\n"
              "+--------+-------+\n");
}

TEST(TableTest, DrawsBoxesInUtf8AndNoEmptyHeader) {
    Table table({"", ""});
    table.AddRow({"modèle", "mlp"});
    table.AddRow({"bs", "two\nlines"});
    Terminal terminal;
    terminal.utf8 = true;
    EXPECT_EQ(table.ToString(terminal),
              "┌────────┬───────────┐\n"
              "│ modèle │ mlp       │\n"
              "│ bs     │ two lines │\n"
              "└────────┴───────────┘\n");
}

TEST(TableTest, TheHeaderIsBoldWithColour) {
    Terminal terminal;
    terminal.color = ColorDepth::kBasic;
    Table table({"a"});
    table.AddRow({"b"});
    EXPECT_EQ(table.ToString(terminal), "+---+\n| \x1b[1ma\x1b[0m |\n+---+\n| b |\n+---+\n");
}

TEST(TableTest, FoldsTheLastColumnInANarrowTerminal) {
    Table table({"", ""});
    table.AddRow({"dataset", "/usr/share/datasets/fashion"});
    Terminal terminal;
    terminal.is_terminal = true;
    terminal.width = 26;
    EXPECT_EQ(table.ToString(terminal),
              "+---------+--------------+\n"
              "| dataset | /usr/share/d |\n"
              "|         | atasets/fash |\n"
              "|         | ion          |\n"
              "+---------+--------------+\n");
    // A file has room.
    terminal.is_terminal = false;
    EXPECT_NE(table.ToString(terminal).find("| /usr/share/datasets/fashion |"), std::string::npos);
}

TEST(TableTest, RefusesWrongCounts) {
    EXPECT_EQ(Thrown<ValueError>([] { Table({}); }), "Table: expected at least one column, got none");
    EXPECT_EQ(Thrown<ValueError>([] {
                  Table({"a"}, {Table::kLeft, Table::kLeft});
              }),
              "Table: expected at most 1 alignments, got 2");
    Table table({"a", "b"});
    EXPECT_EQ(Thrown<ValueError>([&] { table.AddRow({"1"}); }), "Table: expected 2 cells, got 1");
}

}  // namespace
}  // namespace infini_train::utils
