#include "infini_train/src/text/splitter.h"

#include <algorithm>

namespace infini_train::text {
namespace {

using Words = std::vector<std::string_view>;

void Add(std::string_view word, bool keep, Words *words) {
    if (keep && !word.empty()) {
        words->push_back(word);
    }
}

bool IsValid(std::string_view word) {
    return DecodeUtf8(word.data(), word.data() + word.size()).length != 0;
}

}  // namespace

void Splitter::AddPattern(std::string pattern, bool keep_matches, bool keep_gaps) {
    if (pattern == kGpt2Pattern && keep_matches) {
        AddGpt2();  // It matches everything: there are no gaps.
        return;
    }
    steps_.push_back({std::make_unique<Regex>(std::move(pattern)), keep_matches, keep_gaps});
}

Words Splitter::Split(std::string_view text) const {
    Words words;
    const char *const end = text.data() + text.size();
    for (const char *at = text.data(); at < end;) {
        const char *valid = EndOfValid(at, end);
        const char *invalid = EndOfInvalid(valid, end);
        Add({at, static_cast<size_t>(valid - at)}, true, &words);
        Add({valid, static_cast<size_t>(invalid - valid)}, true, &words);
        at = invalid;
    }
    for (const Step &step : steps_) {
        Words parts;
        const auto matcher = step.regex == nullptr ? nullptr : std::make_unique<Regex::Matcher>(*step.regex);
        for (const std::string_view word : words) {
            if (!IsValid(word)) {
                parts.push_back(word);
            } else if (step.regex == nullptr) {
                Gpt2Scanner(word).ForEachWord([&](const char *part, size_t size) { parts.emplace_back(part, size); });
            } else {
                Regex::Match match{};
                size_t done = 0;
                for (size_t from = 0; from < word.size() && matcher->Find(word, from, &match);) {
                    Add(word.substr(done, match.begin - done), step.keep_gaps, &parts);
                    Add(word.substr(match.begin, match.end - match.begin), step.keep_matches, &parts);
                    done = match.end;
                    from = match.end;
                    if (match.end == match.begin && from < word.size()) {  // An empty match: on by a character.
                        from += DecodeUtf8(&word[from], word.data() + word.size()).length;
                    }
                }
                Add(word.substr(done), step.keep_gaps, &parts);
            }
        }
        words = std::move(parts);
    }
    return words;
}

}  // namespace infini_train::text
