#pragma once

#include <cstdint>
#include <string>

namespace infini_train::text {

constexpr uint32_t kMaxCodePoint = 0x10FFFF;
constexpr bool IsSurrogate(uint32_t code_point) {
    return code_point >= 0xD800 && code_point <= 0xDFFF;
}

struct Utf8Sequence {
    uint32_t code_point;
    uint32_t length;  // In bytes; 0 where no valid sequence begins.
};

/// The sequence that begins at `at` < `end`. Valid is what RFC 3629 says: shortest form, no surrogates, up to U+10FFFF.
inline Utf8Sequence DecodeUtf8(const char *at, const char *end) {
    const auto byte = [at](int i) { return static_cast<uint32_t>(static_cast<unsigned char>(at[i])); };
    const auto continues = [&](int i) { return (byte(i) & 0xC0) == 0x80; };
    const uint32_t first = byte(0);
    if (first < 0x80) {
        return {first, 1};
    }
    if (first >= 0xC2 && first <= 0xDF && end - at >= 2 && continues(1)) {
        return {(first & 0x1F) << 6 | (byte(1) & 0x3F), 2};
    }
    if (first >= 0xE0 && first <= 0xEF && end - at >= 3 && continues(1) && continues(2)) {
        const uint32_t code_point = (first & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
        return {code_point, code_point >= 0x800 && !IsSurrogate(code_point) ? 3U : 0U};
    }
    if (first >= 0xF0 && first <= 0xF4 && end - at >= 4 && continues(1) && continues(2) && continues(3)) {
        const uint32_t code_point =
            (first & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
        return {code_point, code_point >= 0x10000 && code_point <= kMaxCodePoint ? 4U : 0U};
    }
    return {0, 0};
}

inline void AppendUtf8(uint32_t code_point, std::string *text) {
    const auto put = [text](uint32_t byte) { text->push_back(static_cast<char>(byte)); };
    if (code_point < 0x80) {
        put(code_point);
        return;
    }
    if (code_point < 0x800) {
        put(0xC0 | code_point >> 6);
    } else {
        if (code_point < 0x10000) {
            put(0xE0 | code_point >> 12);
        } else {
            put(0xF0 | code_point >> 18);
            put(0x80 | (code_point >> 12 & 0x3F));
        }
        put(0x80 | (code_point >> 6 & 0x3F));
    }
    put(0x80 | (code_point & 0x3F));
}

/// The end of the valid UTF-8 that begins at `at`, and of the bytes that begin no valid sequence.
inline const char *EndOfValid(const char *at, const char *end) {
    while (at < end) {
        const uint32_t length = DecodeUtf8(at, end).length;
        if (length == 0) {
            break;
        }
        at += length;
    }
    return at;
}
inline const char *EndOfInvalid(const char *at, const char *end) {
    while (at < end && DecodeUtf8(at, end).length == 0) {
        ++at;
    }
    return at;
}

}  // namespace infini_train::text
