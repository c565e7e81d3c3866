#include "infini_train/include/utils/terminal.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/format.h>

namespace infini_train::utils {

namespace {

using Environment = std::function<const char *(const char *)>;

std::string Value(const Environment &get, const char *name) {
    const char *value = get(name);
    return value == nullptr ? "" : value;
}

std::string Lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
}

// The first of these variables that is set decides, as in setlocale.
bool LocaleIsUtf8(const Environment &get) {
    for (const char *name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
        const std::string value = Lower(Value(get, name));
        if (!value.empty()) {
            return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
        }
    }
    return false;
}

ColorDepth DetectColor(const Environment &get) {
    const std::string depth = Lower(Value(get, "COLORTERM"));
    const std::string term = Lower(Value(get, "TERM"));
    if (!Value(get, "NO_COLOR").empty() || term.empty()) {
        return ColorDepth::kNone;
    }
    if (depth == "truecolor" || depth == "24bit" || term.ends_with("-direct")) {
        return ColorDepth::kTrue;
    }
    return term.find("256color") != std::string::npos ? ColorDepth::kPalette : ColorDepth::kBasic;
}

int WidthOf(int fd) {
    struct winsize size = {};
    return fd >= 0 && ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

// The byte position behind the first `width` code points.
size_t PositionOf(std::string_view text, int64_t width) {
    size_t position = 0;
    int64_t seen = 0;
    while (position < text.size()) {
        const bool starts = (static_cast<unsigned char>(text[position]) & 0xc0) != 0x80;
        if (starts && seen == width) {
            break;
        }
        seen += starts ? 1 : 0;
        ++position;
    }
    return position;
}

}  // namespace

Terminal DetectTerminal(int fd) {
    return DetectTerminal(fd, isatty(fd) == 1, [](const char *name) { return std::getenv(name); });
}

Terminal DetectTerminal(int fd, bool is_terminal, const Environment &get) {
    Terminal terminal;
    terminal.fd = fd;
    terminal.is_terminal = is_terminal && Value(get, "TERM") != "dumb";
    terminal.utf8 = LocaleIsUtf8(get);
    terminal.color = terminal.is_terminal ? DetectColor(get) : ColorDepth::kNone;
    const int columns = std::atoi(Value(get, "COLUMNS").c_str());
    if (columns > 0) {
        terminal.width = columns;
    }
    terminal.width = CurrentWidth(terminal);
    return terminal;
}

int CurrentWidth(const Terminal &terminal) {
    const int width = WidthOf(terminal.fd);
    return width > 0 ? width : terminal.width;
}

std::string Styled(const Terminal &terminal, Style style, std::string_view text) {
    if (terminal.color == ColorDepth::kNone || text.empty()) {
        return std::string(text);
    }
    const char *code = "1";
    switch (style) {
        case Style::kBold:
            break;
        case Style::kDim:
            code = "2";
            break;
        case Style::kGood:
            code = "32";
            break;
        case Style::kBad:
            code = "31";
            break;
        case Style::kAccent:
            code = "36";
            break;
    }
    return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

int64_t DisplayWidth(std::string_view text) {
    return std::count_if(text.begin(), text.end(),
                         [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
}

std::string Truncated(std::string_view text, int64_t width) {
    return std::string(text.substr(0, PositionOf(text, std::max<int64_t>(width, 0))));
}

std::string PadRight(std::string_view text, int64_t width) {
    return std::string(text) + std::string(static_cast<size_t>(std::max<int64_t>(0, width - DisplayWidth(text))), ' ');
}

std::string PadLeft(std::string_view text, int64_t width) {
    return std::string(static_cast<size_t>(std::max<int64_t>(0, width - DisplayWidth(text))), ' ') + std::string(text);
}

std::string FormatDuration(double seconds) {
    constexpr double kTooLong = 1e9;
    if (!(seconds >= 0 && seconds < kTooLong)) {
        return "-:--";
    }
    const auto whole = static_cast<int64_t>(std::floor(seconds + 0.5));
    const int64_t hours = whole / 3600;
    const int64_t minutes = whole / 60 % 60;
    return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
                     : fmt::format("{}:{:02}", minutes, whole % 60);
}

std::string FormatCount(double value) {
    if (!(value >= 0) || std::isinf(value)) {
        return "-";
    }
    constexpr const char *kUnits[] = {"", "k", "M", "G", "T"};
    size_t unit = 0;
    while (value >= 999.5 && unit + 1 < std::size(kUnits)) {
        value /= 1000;
        ++unit;
    }
    const int decimals = value >= 99.95 ? 0 : (value >= 9.995 ? 1 : 2);
    return fmt::format("{:.{}f}{}", value, decimals, kUnits[unit]);
}

std::string FormatBytes(int64_t bytes) {
    if (bytes < 0) {
        return "-";
    }
    constexpr const char *kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    auto value = static_cast<double>(bytes);
    size_t unit = 0;
    while (value >= 999.5 && unit + 1 < std::size(kUnits)) {
        value /= 1024;
        ++unit;
    }
    const int decimals = unit == 0 || value >= 99.95 ? 0 : (value >= 9.995 ? 1 : 2);
    return fmt::format("{:.{}f} {}", value, decimals, kUnits[unit]);
}

std::string FormatPercent(double fraction, int decimals) {
    return std::isfinite(fraction) ? fmt::format("{:.{}f} %", 100 * fraction, decimals) : "-";
}

std::string FormatFixed(double value, int decimals) {
    return fmt::format("{:.{}f}", value, decimals);
}

}  // namespace infini_train::utils
