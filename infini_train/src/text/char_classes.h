#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace infini_train::text {

/// What GPT-2's pattern tells apart.
enum class CharClass : uint8_t {
    kOther,
    kLetter,  // \p{L}
    kNumber,  // \p{N}
    kSpace,   // \s
};

/// The class of every code point, as PCRE2 knows them: the two ways of splitting can't differ by their Unicode version.
class CharClasses {
public:
    /// Made on the first call.
    static const CharClasses &Get();

    CharClass Of(uint32_t code_point) const { return pages_[page_[code_point >> 8] + (code_point & 0xFF)]; }

private:
    CharClasses();

    std::array<uint32_t, 0x1100> page_{};  // Where the classes of 256 code points begin; equal pages are there once.
    std::vector<CharClass> pages_;
};

}  // namespace infini_train::text
