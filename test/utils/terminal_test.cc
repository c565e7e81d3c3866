#include "infini_train/include/utils/terminal.h"

#include <cmath>
#include <limits>
#include <map>
#include <string>

#include <gtest/gtest.h>

namespace infini_train::utils {
namespace {

Terminal Detect(bool is_terminal, const std::map<std::string, std::string> &environment) {
    return DetectTerminal(-1, is_terminal, [&](const char *name) {
        const auto found = environment.find(name);
        return found == environment.end() ? nullptr : found->second.c_str();
    });
}

TEST(TerminalTest, AFileHasNoColour) {
    const Terminal terminal =
        Detect(false, {{"TERM", "xterm-256color"}, {"COLORTERM", "truecolor"}, {"COLUMNS", "120"}});
    EXPECT_FALSE(terminal.is_terminal);
    EXPECT_EQ(terminal.color, ColorDepth::kNone);
    EXPECT_EQ(terminal.width, 120);
}

TEST(TerminalTest, ColourFollowsTheVariables) {
    EXPECT_EQ(Detect(true, {{"TERM", "xterm-256color"}}).color, ColorDepth::kPalette);
    EXPECT_EQ(Detect(true, {{"TERM", "xterm-256color"}, {"COLORTERM", "truecolor"}}).color, ColorDepth::kTrue);
    EXPECT_EQ(Detect(true, {{"TERM", "linux"}}).color, ColorDepth::kBasic);
    EXPECT_EQ(Detect(true, {}).color, ColorDepth::kNone);
    EXPECT_EQ(Detect(true, {{"TERM", "xterm-256color"}, {"NO_COLOR", "1"}}).color, ColorDepth::kNone);
    EXPECT_EQ(Detect(true, {{"TERM", "xterm-256color"}, {"NO_COLOR", ""}}).color, ColorDepth::kPalette);
    EXPECT_FALSE(Detect(true, {{"TERM", "dumb"}}).is_terminal);
}

TEST(TerminalTest, TheFirstLocaleVariableDecides) {
    EXPECT_TRUE(Detect(true, {{"LANG", "en_GB.UTF-8"}}).utf8);
    EXPECT_TRUE(Detect(true, {{"LC_CTYPE", "C.utf8"}, {"LANG", "C"}}).utf8);
    EXPECT_FALSE(Detect(true, {{"LC_ALL", "C"}, {"LANG", "en_GB.UTF-8"}}).utf8);
    EXPECT_TRUE(Detect(true, {{"LC_ALL", ""}, {"LANG", "en_GB.UTF-8"}}).utf8);
    EXPECT_FALSE(Detect(true, {}).utf8);
}

TEST(TerminalTest, WidthFallsBackTo80) {
    EXPECT_EQ(Detect(true, {}).width, 80);
    EXPECT_EQ(Detect(true, {{"COLUMNS", "wide"}}).width, 80);
}

TEST(TerminalTest, StylesOnlyWithColour) {
    Terminal terminal;
    EXPECT_EQ(Styled(terminal, Style::kBad, "no"), "no");
    terminal.color = ColorDepth::kBasic;
    EXPECT_EQ(Styled(terminal, Style::kBad, "no"), "\x1b[31mno\x1b[0m");
    EXPECT_EQ(Styled(terminal, Style::kGood, ""), "");
}

TEST(TextTest, WidthsCountCodePoints) {
    EXPECT_EQ(DisplayWidth("a─é"), 3);
    EXPECT_EQ(Truncated("a─é", 2), "a─");
    EXPECT_EQ(Truncated("a─é", 9), "a─é");
    EXPECT_EQ(Truncated("abc", -1), "");
    EXPECT_EQ(PadRight("é", 3), "é  ");
    EXPECT_EQ(PadLeft("é", 3), "  é");
    EXPECT_EQ(PadLeft("long", 3), "long");
}

TEST(TextTest, Durations) {
    EXPECT_EQ(FormatDuration(0), "0:00");
    EXPECT_EQ(FormatDuration(59.4), "0:59");
    EXPECT_EQ(FormatDuration(59.5), "1:00");
    EXPECT_EQ(FormatDuration(754), "12:34");
    EXPECT_EQ(FormatDuration(3723), "1:02:03");
    EXPECT_EQ(FormatDuration(-1), "-:--");
    EXPECT_EQ(FormatDuration(std::nan("")), "-:--");
    EXPECT_EQ(FormatDuration(std::numeric_limits<double>::infinity()), "-:--");
}

TEST(TextTest, CountsKeepThreeDigits) {
    EXPECT_EQ(FormatCount(7.5), "7.50");
    EXPECT_EQ(FormatCount(9.996), "10.0");
    EXPECT_EQ(FormatCount(812.2), "812");
    EXPECT_EQ(FormatCount(999.6), "1.00k");
    EXPECT_EQ(FormatCount(12345), "12.3k");
    EXPECT_EQ(FormatCount(4.56e6), "4.56M");
    EXPECT_EQ(FormatCount(std::nan("")), "-");
}

TEST(TextTest, PercentAndFixed) {
    EXPECT_EQ(FormatPercent(0.4526), "45.3 %");
    EXPECT_EQ(FormatPercent(1, 0), "100 %");
    EXPECT_EQ(FormatPercent(std::nan("")), "-");
    EXPECT_EQ(FormatFixed(0.12345, 3), "0.123");
}

TEST(TerminalTest, FormatsBytes) {
    EXPECT_EQ(FormatBytes(0), "0 B");
    EXPECT_EQ(FormatBytes(999), "999 B");
    EXPECT_EQ(FormatBytes(1000), "0.98 KiB");
    EXPECT_EQ(FormatBytes(1536), "1.50 KiB");
    EXPECT_EQ(FormatBytes(24 << 20), "24.0 MiB");
    EXPECT_EQ(FormatBytes(int64_t{3} << 50), "3072 TiB");
    EXPECT_EQ(FormatBytes(-1), "-");
}

}  // namespace
}  // namespace infini_train::utils
