#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "infini_train/include/common/export.h"

namespace infini_train::utils {

/// The colours that a terminal shows, from none to all.
enum class ColorDepth {
    kNone,
    kBasic,    // the eight named ones
    kPalette,  // 256, with 24 greys
    kTrue,     // 24 bits
};

/// What can be written to a stream. The default is a plain file: no colour, ASCII, 80 columns.
struct Terminal {
    int fd = -1;               // asked again for the width at each CurrentWidth; -1: never
    bool is_terminal = false;  // a person watches and the cursor moves
    int width = 80;
    ColorDepth color = ColorDepth::kNone;
    bool utf8 = false;
};

/// Looks at the file descriptor, TERM, COLORTERM, NO_COLOR (set and not empty: no colour), COLUMNS and the locale
/// variables. A dumb terminal counts as a file. `get` stands in for std::getenv in tests and may return null.
INFINI_TRAIN_EXPORT Terminal DetectTerminal(int fd);
INFINI_TRAIN_EXPORT Terminal DetectTerminal(int fd, bool is_terminal,
                                            const std::function<const char *(const char *)> &get);

/// The width now, since people resize windows.
INFINI_TRAIN_EXPORT int CurrentWidth(const Terminal &terminal);

enum class Style {
    kBold,
    kDim,
    kGood,  // green
    kBad,   // red
    kAccent,
};

/// `text` in a style where the terminal has colour, else as it is.
INFINI_TRAIN_EXPORT std::string Styled(const Terminal &terminal, Style style, std::string_view text);

/// The number of columns that UTF-8 text takes, counting each code point as one.
INFINI_TRAIN_EXPORT int64_t DisplayWidth(std::string_view text);

/// `text` cut to at most `width` columns, and filled up with spaces to `width` by the Pad functions.
INFINI_TRAIN_EXPORT std::string Truncated(std::string_view text, int64_t width);
INFINI_TRAIN_EXPORT std::string PadRight(std::string_view text, int64_t width);
INFINI_TRAIN_EXPORT std::string PadLeft(std::string_view text, int64_t width);

/// "0:07", "12:34", "1:02:03"; "-:--" if not finite or negative. Half seconds are rounded up.
INFINI_TRAIN_EXPORT std::string FormatDuration(double seconds);

/// Three digits and a unit: "7.50", "812", "12.3k", "4.56M"; "-" if not finite or negative.
INFINI_TRAIN_EXPORT std::string FormatCount(double value);

/// Three digits and a binary unit: "512 B", "1.50 KiB", "24.0 MiB"; "-" if negative.
INFINI_TRAIN_EXPORT std::string FormatBytes(int64_t bytes);

/// "45.3 %" of a fraction of one; "-" if not finite.
INFINI_TRAIN_EXPORT std::string FormatPercent(double fraction, int decimals = 1);

/// A number with `decimals` digits after the point.
INFINI_TRAIN_EXPORT std::string FormatFixed(double value, int decimals);

}  // namespace infini_train::utils
