#include "example/common/image_grid.h"

#include <cstdint>
#include <cstdlib>
#include <vector>

#include <gtest/gtest.h>

#include "infini_train/include/common/error.h"

#include "test/support/temp_dir.h"

namespace infini_train::example {
namespace {

using ::infini_train::test::MessageOf;

TEST(DrawImagesTest, AsciiShowsTwoPixelsAsOneCharacter) {
    const std::vector<uint8_t> left = {0, 255, 128, 0, 255, 0, 255, 255, 255};
    const std::vector<uint8_t> right(9, 255);
    EXPECT_EQ(DrawImages({{left.data(), "Sandal", "Sandal"}, {right.data(), "Coat", "Dress"}}, 3, 3, Terminal()),
              " @:         @@@\n"
              "+++         +++\n"
              "+ Sandal    x Coat\n"
              "              is Dress\n");
}

TEST(DrawImagesTest, ImagesFillTheWidthAndGoOnBelow) {
    const std::vector<uint8_t> pixels(20, 255);
    Terminal terminal;
    terminal.width = 22;
    const ClassifiedImage image = {pixels.data(), "a", "a"};
    // Two of 10 columns and a gap of 2 just fit.
    EXPECT_EQ(DrawImages({image, image, image}, 2, 10, terminal),
              "@@@@@@@@@@  @@@@@@@@@@\n"
              "+ a         + a\n"
              "\n"
              "@@@@@@@@@@\n"
              "+ a\n");
    terminal.width = 3;
    EXPECT_EQ(DrawImages({image}, 2, 10, terminal), "@@@@@@@@@@\n+ a\n");
    EXPECT_EQ(DrawImages({}, 2, 10, terminal), "");
}

TEST(DrawImagesTest, HalfBlocksInTrueColour) {
    const std::vector<uint8_t> pixels = {0, 0, 200, 10, 10, 255};
    Terminal terminal;
    terminal.utf8 = true;
    terminal.color = ColorDepth::kTrue;
    EXPECT_EQ(DrawImages({{pixels.data(), "b", "a"}}, 2, 3, terminal),
              "\x1b[38;2;0;0;0;48;2;10;10;10m▀▀\x1b[38;2;200;200;200;48;2;255;255;255m▀\x1b[0m\n"
              "\x1b[31m✗ b       \x1b[0m\n"
              "  is a\n");
}

TEST(DrawImagesTest, HalfBlocksIn256Colours) {
    const std::vector<uint8_t> pixels = {0, 255};
    Terminal terminal;
    terminal.utf8 = true;
    terminal.color = ColorDepth::kPalette;
    EXPECT_EQ(DrawImages({{pixels.data(), "a", "a"}}, 2, 1, terminal),
              "\x1b[38;5;16;48;5;231m▀\x1b[0m\n\x1b[32m✓ a       \x1b[0m\n");
}

TEST(DrawImagesTest, PaletteGreysAreTheNearest) {
    for (int grey = 0; grey < 256; ++grey) {
        int best = 256;
        for (int i = 0; i < 24; ++i) {
            best = std::min(best, std::abs(8 + 10 * i - grey));
        }
        best = std::min({best, grey, 255 - grey});
        const int index = PaletteGrey(static_cast<uint8_t>(grey));
        const int value = index == 16 ? 0 : (index == 231 ? 255 : 8 + 10 * (index - 232));
        EXPECT_EQ(std::abs(value - grey), best) << grey;
    }
}

TEST(DrawImagesTest, RefusesNothingToDraw) {
    EXPECT_EQ(MessageOf<ValueError>([] { DrawImages({}, 0, 28, Terminal()); }),
              "DrawImages: expected a positive size, got 0 x 28");
    EXPECT_EQ(MessageOf<ValueError>([] {
                  DrawImages({{nullptr, "a", "a"}}, 2, 2, Terminal());
              }),
              "DrawImages: expected pixels for each image, got none");
}

}  // namespace
}  // namespace infini_train::example
