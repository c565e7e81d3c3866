#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "infini_train/src/text/char_classes.h"
#include "infini_train/src/text/utf8.h"

namespace infini_train::text {

/// GPT-2's pattern.
inline constexpr char kGpt2Pattern[] = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// Splits a text as kGpt2Pattern does, without a regular expression. Bytes that aren't UTF-8 are words of their own,
/// and the text on their either side is split as if it stood alone.
class Gpt2Scanner {
public:
    explicit Gpt2Scanner(std::string_view text)
        : begin_(text.data()), end_(text.data() + text.size()), classes_(CharClasses::Get()) {}

    /// Calls `use(const char *word, size_t bytes)` for each word.
    template <typename Use>
    void ForEachWord(Use &&use) const {
        for (const char *at = begin_; at < end_;) {
            const char *const next = WordEnd(at);
            use(at, static_cast<size_t>(next - at));
            at = next;
        }
    }

private:
    static constexpr auto kInvalid = static_cast<CharClass>(0x10);
    static constexpr auto kNotAscii = static_cast<CharClass>(0x11);

    struct Character {
        CharClass kind;
        uint32_t length;
    };

    static constexpr std::array<CharClass, 256> MakeAscii() {
        std::array<CharClass, 256> kinds{};
        for (int c = 0; c < 256; ++c) {
            kinds[c] = c >= 0x80                                          ? kNotAscii
                       : (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ? CharClass::kLetter
                       : c >= '0' && c <= '9'                             ? CharClass::kNumber
                       : c == ' ' || (c >= '\t' && c <= '\r')             ? CharClass::kSpace
                                                                          : CharClass::kOther;
        }
        return kinds;
    }
    static CharClass Ascii(const char *at) {
        static constexpr std::array<CharClass, 256> kKinds = MakeAscii();
        return kKinds[static_cast<unsigned char>(*at)];
    }

    Character At(const char *at) const {
        const CharClass kind = Ascii(at);
        if (kind != kNotAscii) {
            return {kind, 1};
        }
        const auto [code_point, length] = DecodeUtf8(at, end_);
        return length == 0 ? Character{kInvalid, 1} : Character{classes_.Of(code_point), length};
    }

    /// The end of the characters of one kind that begin at `at`.
    const char *RunEnd(const char *at, CharClass kind) const {
        while (at < end_) {
            while (at < end_ && Ascii(at) == kind) {
                ++at;
            }
            if (at == end_ || Ascii(at) != kNotAscii) {
                break;
            }
            const Character next = At(at);
            if (next.kind != kind) {
                break;
            }
            at += next.length;
        }
        return at;
    }

    const char *WordEnd(const char *at) const {
        if (*at == ' ' && at + 1 < end_) {
            const CharClass next = At(at + 1).kind;
            if (next != CharClass::kSpace && next != kInvalid) {
                return RunEnd(at + 1, next);
            }
        } else if (*at == '\'') {
            if (const int length = Contraction(at); length != 0) {
                return at + length;
            }
        }
        const CharClass kind = At(at).kind;
        return kind == CharClass::kSpace ? SpacesEnd(at) : kind == kInvalid ? EndOfInvalid(at, end_) : RunEnd(at, kind);
    }

    int Contraction(const char *at) const {
        const std::string_view rest(at + 1, static_cast<size_t>(std::min<int64_t>(end_ - at - 1, 2)));
        if (!rest.empty() && (rest[0] == 's' || rest[0] == 't' || rest[0] == 'm' || rest[0] == 'd')) {
            return 2;
        }
        return rest == "re" || rest == "ve" || rest == "ll" ? 3 : 0;
    }

    /// Spaces in front of a word leave their last one to it.
    const char *SpacesEnd(const char *begin) const {
        const char *last = begin;
        const char *at = begin;
        Character next{};
        while (at < end_ && (next = At(at)).kind == CharClass::kSpace) {
            last = at;
            at += next.length;
        }
        return at == end_ || next.kind == kInvalid || last == begin ? at : last;
    }

    const char *begin_;
    const char *end_;
    const CharClasses &classes_;
};

}  // namespace infini_train::text
