#include "infini_train/src/utils/glob.h"

#include <algorithm>
#include <utility>

#include "infini_train/include/common/error.h"

#include "infini_train/src/common/format.h"

namespace infini_train::utils {
namespace {

constexpr size_t kNone = std::string_view::npos;
constexpr size_t kMaxAlternatives = 1024;

// Where the class that begins at pattern[open] ends; kNone if it doesn't. A ] right at the beginning is a member.
size_t ClassEnd(std::string_view pattern, size_t open) {
    size_t first = open + 1;
    if (first < pattern.size() && pattern[first] == '!') {
        ++first;
    }
    return pattern.find(']', first + 1);
}

bool InClass(std::string_view members, char c) {
    const bool negated = members.front() == '!' && members.size() > 1;
    if (negated) {
        members.remove_prefix(1);
    }
    bool found = false;
    for (size_t i = 0; i < members.size(); ++i) {
        const bool range = i + 2 < members.size() && members[i + 1] == '-';
        found = found || (range ? members[i] <= c && c <= members[i + 2] : members[i] == c);
        i += range ? 2 : 0;
    }
    return found != negated;
}

// Whether the one-character pattern at pattern[at] matches c, and where the next one begins.
bool MatchOne(std::string_view pattern, size_t at, char c, size_t *next) {
    if (pattern[at] == '[') {
        const size_t end = ClassEnd(pattern, at);
        *next = end + 1;
        return InClass(pattern.substr(at + 1, end - at - 1), c);
    }
    *next = at + 1;
    return pattern[at] == '?' || pattern[at] == c;
}

// The first of `wanted` from `at` on that stands in no class; kNone if there is none.
size_t FindOutsideClasses(std::string_view pattern, size_t at, std::string_view wanted) {
    for (; at < pattern.size(); ++at) {
        if (pattern[at] == '[') {
            const size_t end = ClassEnd(pattern, at);
            if (end == kNone) {
                Throw<ValueError>("ModuleSelector: '{}' has a [ without a ]", pattern);
            }
            at = end;
        } else if (wanted.find(pattern[at]) != kNone) {
            return at;
        }
    }
    return kNone;
}

void ExpandInto(const std::string &pattern, std::vector<std::string> *expanded) {
    const size_t open = FindOutsideClasses(pattern, 0, "{}");
    if (open == kNone) {
        if (expanded->size() == kMaxAlternatives) {
            Throw<ValueError>("ModuleSelector: the braces stand for more than {} patterns", kMaxAlternatives);
        }
        expanded->push_back(pattern);
        return;
    }
    std::vector<size_t> bounds = {open};  // of the alternatives: the brace, the commas, the brace
    int depth = pattern[open] == '{' ? 1 : 0;
    size_t at = open;
    while (depth > 0 && (at = FindOutsideClasses(pattern, at + 1, "{,}")) != kNone) {
        depth += pattern[at] == '{' ? 1 : pattern[at] == '}' ? -1 : 0;
        if (depth == 0 || (depth == 1 && pattern[at] == ',')) {
            bounds.push_back(at);
        }
    }
    if (depth != 0 || bounds.size() < 2) {
        Throw<ValueError>("ModuleSelector: '{}' has braces that don't match", pattern);
    }
    for (size_t i = 0; i + 1 < bounds.size(); ++i) {
        const size_t begin = bounds[i] + 1;
        ExpandInto(
            pattern.substr(0, open) + pattern.substr(begin, bounds[i + 1] - begin) + pattern.substr(bounds.back() + 1),
            expanded);
    }
}

}  // namespace

bool MatchGlob(std::string_view pattern, std::string_view text) {
    size_t p = 0, t = 0;
    size_t star = kNone, star_text = 0;  // the latest *, and how much text it has not taken
    while (t < text.size()) {
        size_t next = 0;
        if (p < pattern.size() && pattern[p] == '*') {
            star = p++;
            star_text = t;
        } else if (p < pattern.size() && MatchOne(pattern, p, text[t], &next)) {
            p = next;
            ++t;
        } else if (star != kNone) {
            p = star + 1;
            t = ++star_text;
        } else {
            return false;
        }
    }
    return pattern.find_first_not_of('*', p) == kNone;
}

bool MatchPath(const std::vector<std::string> &pattern, const std::vector<std::string> &names) {
    // reached[i]: the first i patterns can match the names so far.
    std::vector<bool> reached(pattern.size() + 1);
    const auto pass_stars = [&] {
        for (size_t i = 0; i < pattern.size(); ++i) {
            if (reached[i] && pattern[i] == "**") {
                reached[i + 1] = true;
            }
        }
    };
    reached[0] = true;
    pass_stars();
    for (const auto &name : names) {
        std::vector<bool> next(reached.size());
        for (size_t i = 0; i < pattern.size(); ++i) {
            if (reached[i] && pattern[i] == "**") {
                next[i] = true;
            } else if (reached[i] && MatchGlob(pattern[i], name)) {
                next[i + 1] = true;
            }
        }
        reached = std::move(next);
        pass_stars();
    }
    return reached.back();
}

std::vector<std::string> ExpandBraces(const std::string &pattern) {
    std::vector<std::string> expanded;
    ExpandInto(pattern, &expanded);
    return expanded;
}

std::vector<std::string> SplitPath(std::string_view path) {
    std::vector<std::string> names;
    while (!path.empty()) {
        const size_t dot = path.find('.');
        names.emplace_back(path.substr(0, dot));
        if (dot == kNone) {
            return names;
        }
        path.remove_prefix(dot + 1);
        if (path.empty()) {
            names.emplace_back();  // behind a dot at the end
        }
    }
    return names;
}

size_t GlobDistance(std::string_view pattern, std::string_view text) {
    std::vector<size_t> row(text.size() + 1);  // distances of the pattern so far to the text's beginnings
    for (size_t j = 0; j <= text.size(); ++j) {
        row[j] = j;
    }
    for (size_t i = 0; i < pattern.size(); ++i) {
        const char p = pattern[i];
        const bool any_names = p == '*' && (pattern.substr(i + 1).starts_with('*') || (i > 0 && pattern[i - 1] == '*'));
        size_t diagonal = row[0];
        row[0] += p == '*' ? 0 : 1;
        for (size_t j = 1; j <= text.size(); ++j) {
            const size_t above = row[j];
            if (p == '*') {
                row[j] = std::min(above, row[j - 1] + (text[j - 1] == '.' && !any_names ? 1 : 0));
            } else {
                const size_t change = p == '?' || p == text[j - 1] ? 0 : 1;
                row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + change});
            }
            diagonal = above;
        }
    }
    return row.back();
}

}  // namespace infini_train::utils
