#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace infini_train::utils {

/// A PNG file of 8-bit pixels, rows from the top, `channels` 1 (grey), 3 (RGB) or 4 (RGBA). Uncompressed.
std::string EncodePng(std::string_view pixels, uint32_t width, uint32_t height, int channels);

}  // namespace infini_train::utils
