#include "infini_train/src/text/char_classes.h"

#include <algorithm>
#include <map>
#include <string>

#include "infini_train/src/text/regex.h"
#include "infini_train/src/text/utf8.h"

namespace infini_train::text {

const CharClasses &CharClasses::Get() {
    static const CharClasses classes;
    return classes;
}

CharClasses::CharClasses() {
    constexpr uint32_t kBlock = 0x10000;
    const Regex runs(R"(\p{L}+|\p{N}+|\s+|[^\s\p{L}\p{N}]+)");
    const Regex letter(R"(\G\p{L})"), number(R"(\G\p{N})"), space(R"(\G\s)");
    Regex::Matcher run_matcher(runs), letter_matcher(letter), number_matcher(number), space_matcher(space);

    std::map<std::vector<CharClass>, uint32_t> known;
    for (uint32_t block = 0; block <= kMaxCodePoint; block += kBlock) {
        std::string text;
        std::vector<uint32_t> code_points;
        for (uint32_t i = block; i < block + kBlock; ++i) {
            if (!IsSurrogate(i)) {
                AppendUtf8(i, &text);
                code_points.push_back(i);
            }
        }
        std::vector<CharClass> classes(kBlock, CharClass::kOther);
        auto next = code_points.begin();
        Regex::Match run{}, ignored{};
        for (size_t at = 0; at < text.size() && run_matcher.Find(text, at, &run); at = run.end) {
            const CharClass run_class = letter_matcher.Find(text, at, &ignored)   ? CharClass::kLetter
                                        : number_matcher.Find(text, at, &ignored) ? CharClass::kNumber
                                        : space_matcher.Find(text, at, &ignored)  ? CharClass::kSpace
                                                                                  : CharClass::kOther;
            for (size_t i = at; i < run.end; i += DecodeUtf8(&text[i], text.data() + text.size()).length) {
                classes[*next++ - block] = run_class;
            }
        }
        for (uint32_t page = 0; page < kBlock; page += 256) {
            const std::vector<CharClass> content(classes.begin() + page, classes.begin() + page + 256);
            const auto [place, is_new] = known.emplace(content, static_cast<uint32_t>(pages_.size()));
            if (is_new) {
                pages_.insert(pages_.end(), content.begin(), content.end());
            }
            page_[(block + page) >> 8] = place->second;
        }
    }
}

}  // namespace infini_train::text
