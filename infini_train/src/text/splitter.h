#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "infini_train/src/text/gpt2_scanner.h"
#include "infini_train/src/text/regex.h"

namespace infini_train::text {

/// Splits a text into the words within which pairs are merged: steps, each of which splits what the one before it gave.
/// Bytes that aren't UTF-8 are words of their own.
class Splitter {
public:
    /// GPT-2's pattern.
    void AddGpt2() { steps_.emplace_back(); }

    /// Words are what `pattern` matches and what lies between; either may be dropped instead.
    void AddPattern(std::string pattern, bool keep_matches = true, bool keep_gaps = true);

    /// Calls `use(const char *word, size_t bytes)` for each word.
    template <typename Use>
    void ForEachWord(std::string_view text, Use &&use) const {
        if (steps_.size() == 1 && steps_[0].regex == nullptr) {
            Gpt2Scanner(text).ForEachWord(use);
            return;
        }
        for (const std::string_view word : Split(text)) {
            use(word.data(), word.size());
        }
    }

private:
    struct Step {
        std::unique_ptr<Regex> regex;  // Null: GPT-2's pattern.
        bool keep_matches = true;
        bool keep_gaps = true;
    };

    std::vector<std::string_view> Split(std::string_view text) const;

    std::vector<Step> steps_;
};

}  // namespace infini_train::text
