#include "example/common/image_grid.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "infini_train/include/common/error.h"

namespace infini_train::example {

namespace {

constexpr int64_t kGap = 2;

std::string ColorCode(uint8_t grey, bool background, ColorDepth depth) {
    const int kind = background ? 48 : 38;
    return depth == ColorDepth::kTrue ? fmt::format("{};2;{};{};{}", kind, grey, grey, grey)
                                      : fmt::format("{};5;{}", kind, PaletteGrey(grey));
}

// Two pixel rows of one image as a line of characters; below the last row is black.
std::string HalfBlockLine(const ClassifiedImage &image, int64_t row, int64_t rows, int64_t cols, ColorDepth depth) {
    std::string line;
    int last_top = -1;
    int last_bottom = -1;
    for (int64_t col = 0; col < cols; ++col) {
        const uint8_t top = image.pixels[row * cols + col];
        const uint8_t bottom = row + 1 < rows ? image.pixels[(row + 1) * cols + col] : uint8_t{0};
        // Runs of one colour need no new code.
        if (top != last_top || bottom != last_bottom) {
            line += fmt::format("\x1b[{};{}m", ColorCode(top, false, depth), ColorCode(bottom, true, depth));
            last_top = top;
            last_bottom = bottom;
        }
        line += "▀";
    }
    return line + "\x1b[0m";
}

std::string AsciiLine(const ClassifiedImage &image, int64_t row, int64_t rows, int64_t cols) {
    constexpr std::string_view kRamp = " .:-=+*#%@";
    std::string line;
    for (int64_t col = 0; col < cols; ++col) {
        const int top = image.pixels[row * cols + col];
        const int bottom = row + 1 < rows ? image.pixels[(row + 1) * cols + col] : 0;
        line += kRamp[static_cast<size_t>((top + bottom) * 9 + 255) / 510];
    }
    return line;
}

std::string AnswerText(const ClassifiedImage &image, int64_t width, const Terminal &terminal) {
    const bool is_right = image.answer == image.truth;
    std::string text = terminal.utf8 ? (is_right ? "✓ " : "✗ ") : (is_right ? "+ " : "x ");
    text = PadRight(Truncated(text + image.answer, width), width);
    return Styled(terminal, is_right ? Style::kGood : Style::kBad, text);
}

std::string TruthText(const ClassifiedImage &image, int64_t width) {
    return PadRight(image.answer == image.truth ? "" : Truncated("  is " + image.truth, width), width);
}

std::string WithoutTrailingSpaces(std::string line) {
    line.erase(line.find_last_not_of(' ') + 1);
    return line;
}

// One row of images, from `begin` to before `end`.
std::string DrawBand(const std::vector<ClassifiedImage> &images, size_t begin, size_t end, int64_t rows, int64_t cols,
                     int64_t width, const Terminal &terminal) {
    const std::string gap(kGap, ' ');
    const bool blocks = terminal.utf8 && terminal.color >= ColorDepth::kPalette;
    const std::string filler(static_cast<size_t>(width - cols), ' ');
    std::string text;
    for (int64_t row = 0; row < rows; row += 2) {
        std::string line;
        for (size_t i = begin; i < end; ++i) {
            line += i > begin ? gap : "";
            line += blocks ? HalfBlockLine(images[i], row, rows, cols, terminal.color)
                           : AsciiLine(images[i], row, rows, cols);
            line += filler;
        }
        text += WithoutTrailingSpaces(line) + "\n";
    }
    std::string answers;
    std::string truths;
    for (size_t i = begin; i < end; ++i) {
        answers += (i > begin ? gap : "") + AnswerText(images[i], width, terminal);
        truths += (i > begin ? gap : "") + TruthText(images[i], width);
    }
    text += WithoutTrailingSpaces(answers) + "\n";
    truths = WithoutTrailingSpaces(truths);
    return truths.empty() ? text : text + truths + "\n";
}

}  // namespace

int PaletteGrey(uint8_t grey) {
    // The palette holds black (16), white (231) and between them 24 greys (232 ...) of 8, 18, ... 238.
    const int step = std::clamp((grey - 8 + 5) / 10, 0, 23);
    const int distance = std::abs(8 + 10 * step - grey);
    if (grey < distance) {
        return 16;
    }
    return 255 - grey < distance ? 231 : 232 + step;
}

std::string DrawImages(const std::vector<ClassifiedImage> &images, int64_t rows, int64_t cols,
                       const Terminal &terminal) {
    if (rows <= 0 || cols <= 0) {
        throw ValueError(fmt::format("DrawImages: expected a positive size, got {} x {}", rows, cols));
    }
    if (std::any_of(images.begin(), images.end(),
                    [](const ClassifiedImage &image) { return image.pixels == nullptr; })) {
        throw ValueError("DrawImages: expected pixels for each image, got none");
    }
    // Room for a short caption even under a tiny image.
    constexpr int64_t kNarrowestCaption = 10;
    const int64_t width = std::max(cols, kNarrowestCaption);
    const int64_t fit = std::max<int64_t>(1, (CurrentWidth(terminal) + kGap) / (width + kGap));
    std::string text;
    for (size_t begin = 0; begin < images.size(); begin += static_cast<size_t>(fit)) {
        const size_t end = std::min(images.size(), begin + static_cast<size_t>(fit));
        text += (begin > 0 ? "\n" : "") + DrawBand(images, begin, end, rows, cols, width, terminal);
    }
    return text;
}

}  // namespace infini_train::example
