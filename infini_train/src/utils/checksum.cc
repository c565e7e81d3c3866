#include "infini_train/src/utils/checksum.h"

#include <array>

namespace infini_train::utils {
namespace {

using Table = std::array<uint32_t, 256>;

// Both polynomials with their bits reversed: the lowest bit comes first.
constexpr Table MakeTable(uint32_t polynomial) {
    Table table{};
    for (uint32_t i = 0; i < 256; ++i) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; ++bit) {
            value = (value >> 1) ^ ((value & 1) != 0 ? polynomial : 0);
        }
        table[i] = value;
    }
    return table;
}

constexpr Table kCastagnoli = MakeTable(0x82F63B78);
constexpr Table kIso = MakeTable(0xEDB88320);

uint32_t Update(const Table &table, std::string_view bytes, uint32_t crc) {
    crc = ~crc;
    for (const char c : bytes) {
        crc = table[(crc ^ static_cast<uint8_t>(c)) & 0xFF] ^ (crc >> 8);
    }
    return ~crc;
}

}  // namespace

uint32_t Crc32c(std::string_view bytes) {
    return Update(kCastagnoli, bytes, 0);
}

uint32_t Crc32(std::string_view bytes, uint32_t crc) {
    return Update(kIso, bytes, crc);
}

uint32_t Adler32(std::string_view bytes) {
    uint32_t a = 1;
    uint32_t b = 0;
    for (const char c : bytes) {
        a = (a + static_cast<uint8_t>(c)) % 65521;
        b = (b + a) % 65521;
    }
    return (b << 16) | a;
}

}  // namespace infini_train::utils
