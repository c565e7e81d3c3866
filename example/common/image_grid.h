#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "example/common/terminal.h"

namespace infini_train::example {

/// A grey image to draw, with what the model says it shows and what it really shows.
struct ClassifiedImage {
    const uint8_t *pixels = nullptr;  // rows * cols bytes, 0 is black
    std::string answer;
    std::string truth;  // right if equal to the answer
};

/// Draws images of one size side by side, as many as fit the width, with the answer under each (green or red) and the
/// truth where it differs. A character shows two pixels, one above the other: as half blocks in 24-bit or 256 colours,
/// else as one of ten ASCII characters from space (black) to @ (white). Throws ValueError if the size is not positive
/// or an image is missing.
std::string DrawImages(const std::vector<ClassifiedImage> &images, int64_t rows, int64_t cols,
                       const Terminal &terminal);

/// The nearest grey of the 256-colour palette.
int PaletteGrey(uint8_t grey);

}  // namespace infini_train::example
