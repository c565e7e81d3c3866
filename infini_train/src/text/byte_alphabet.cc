#include "infini_train/src/text/byte_alphabet.h"

#include <array>

#include "infini_train/src/text/utf8.h"

namespace infini_train::text {
namespace {

constexpr uint32_t kFirstOther = 0x100;
constexpr int kOthers = 68;  // Bytes that aren't printable.

constexpr bool IsPrintable(int byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

struct Tables {
    std::array<uint32_t, 256> character{};
    std::array<unsigned char, kOthers> other{};  // The byte of U+0100 + i.
    std::array<unsigned char, 256> order{};
};

constexpr Tables MakeTables() {
    Tables tables;
    int place = 0;
    int others = 0;
    for (int byte = 0; byte < 256; ++byte) {
        if (IsPrintable(byte)) {
            tables.character[byte] = static_cast<uint32_t>(byte);
            tables.order[place++] = static_cast<unsigned char>(byte);
        } else {
            tables.character[byte] = kFirstOther + static_cast<uint32_t>(others);
            tables.other[others++] = static_cast<unsigned char>(byte);
        }
    }
    for (const unsigned char byte : tables.other) {
        tables.order[place++] = byte;
    }
    return tables;
}
constexpr Tables kTables = MakeTables();

}  // namespace

uint32_t CharacterOfByte(unsigned char byte) {
    return kTables.character[byte];
}

unsigned char ByteAtPlace(int place) {
    return kTables.order[place];
}

std::string BytesToCharacters(std::string_view bytes) {
    std::string characters;
    for (const char byte : bytes) {
        AppendUtf8(CharacterOfByte(static_cast<unsigned char>(byte)), &characters);
    }
    return characters;
}

int64_t CharactersToBytes(std::string_view characters, char *bytes) {
    const char *at = characters.data();
    const char *const end = at + characters.size();
    char *to = bytes;
    while (at < end) {
        const auto [code_point, length] = DecodeUtf8(at, end);
        if (length != 0 && code_point < kFirstOther && IsPrintable(static_cast<int>(code_point))) {
            *to++ = static_cast<char>(code_point);
        } else if (code_point >= kFirstOther && code_point < kFirstOther + kOthers) {
            *to++ = static_cast<char>(kTables.other[code_point - kFirstOther]);
        } else {
            return -1;
        }
        at += length;
    }
    return to - bytes;
}

}  // namespace infini_train::text
