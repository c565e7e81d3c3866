#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace infini_train::text {

/// A Perl-compatible regular expression over UTF-8 with Unicode's properties. `\s` is Unicode's White_Space, as in the
/// libraries for which tokenizers' patterns are written; PCRE2's own would add U+180E.
class Regex {
public:
    /// Throws ValueError, with the place, if it is none.
    explicit Regex(std::string pattern);
    ~Regex();

    const std::string &pattern() const { return pattern_; }

    struct Match {
        size_t begin;
        size_t end;
    };

    /// Searches one text after another; each thread needs its own.
    class Matcher {
    public:
        explicit Matcher(const Regex &regex);
        ~Matcher();

        /// Finds the first match at or behind `from` in `text`, which must be valid UTF-8. Throws ValueError if the
        /// search exceeds PCRE2's limits.
        bool Find(std::string_view text, size_t from, Match *match);

    private:
        struct Data;
        const Regex &regex_;
        std::unique_ptr<Data> data_;
    };

private:
    struct Code;
    std::string pattern_;
    std::unique_ptr<Code> code_;
};

}  // namespace infini_train::text
