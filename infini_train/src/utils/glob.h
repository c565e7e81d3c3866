#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// Patterns over one name or over names joined by dots; what they mean is said at utils::ModuleSelector.
namespace infini_train::utils {

/// Whether all of `text` matches `pattern`, which has `*`, `?` and `[..]`. The pattern must be well-formed.
bool MatchGlob(std::string_view pattern, std::string_view text);

/// The same for lists of names, where a pattern `**` stands for any number of names.
bool MatchPath(const std::vector<std::string> &pattern, const std::vector<std::string> &names);

/// `{a,b}` written out: the patterns without braces that `pattern` stands for. Throws ValueError if braces or brackets
/// don't match, or for more than 1024 patterns.
std::vector<std::string> ExpandBraces(const std::string &pattern);

/// The parts between the dots; none for an empty text.
std::vector<std::string> SplitPath(std::string_view path);

/// The fewest characters to insert, delete or change (Levenshtein) so that `text` matches `pattern`, in which `*`, `**`
/// and `?` match as ever, and brackets count as text.
size_t GlobDistance(std::string_view pattern, std::string_view text);

}  // namespace infini_train::utils
