#include "infini_train/src/utils/png.h"

#include <algorithm>
#include <cstddef>

#include "infini_train/src/utils/checksum.h"

// The format: https://www.w3.org/TR/png/

namespace infini_train::utils {
namespace {

std::string BigEndian(uint32_t value) {
    return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
            static_cast<char>(value)};
}

std::string Chunk(const std::string &type, const std::string &data) {
    return BigEndian(static_cast<uint32_t>(data.size())) + type + data + BigEndian(Crc32(data, Crc32(type)));
}

// A zlib stream (RFC 1950) of stored blocks (RFC 1951, 3.2.4).
std::string Stored(std::string_view bytes) {
    constexpr size_t kMost = 65535;
    std::string stream = "\x78\x01";
    for (size_t begin = 0; begin < bytes.size(); begin += kMost) {
        const std::string_view block = bytes.substr(begin, kMost);
        const auto size = static_cast<uint16_t>(block.size());
        stream += begin + kMost >= bytes.size() ? '\1' : '\0';
        for (const uint16_t value : {size, static_cast<uint16_t>(~size)}) {
            stream += static_cast<char>(value & 0xFF);
            stream += static_cast<char>(value >> 8);
        }
        stream += block;
    }
    return stream + BigEndian(Adler32(bytes));
}

}  // namespace

std::string EncodePng(std::string_view pixels, uint32_t width, uint32_t height, int channels) {
    const size_t row = size_t{width} * static_cast<size_t>(channels);
    std::string filtered;
    filtered.reserve((row + 1) * height);
    for (size_t y = 0; y < height; ++y) {
        filtered += '\0';  // the row isn't filtered
        filtered += pixels.substr(y * row, row);
    }
    const char color = channels == 1 ? 0 : channels == 3 ? 2 : 6;
    return "\x89PNG\r\n\x1a\n" + Chunk("IHDR", BigEndian(width) + BigEndian(height) + std::string{8, color, 0, 0, 0}) +
           Chunk("IDAT", Stored(filtered)) + Chunk("IEND", "");
}

}  // namespace infini_train::utils
