#include "example/common/flags.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <numeric>
#include <set>
#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gflags/gflags.h>

#include "example/common/terminal.h"

namespace infini_train::example {

namespace {

using FlagInfo = gflags::CommandLineFlagInfo;

// --flagfile and its like, some of which end the program by themselves.
bool IsBuiltIn(const FlagInfo &flag) {
    return flag.filename.ends_with("src/gflags.cc") || flag.filename.ends_with("src/gflags_completions.cc") ||
           flag.filename.ends_with("src/gflags_reporting.cc");
}

std::vector<FlagInfo> KnownFlags() {
    std::vector<FlagInfo> flags;
    gflags::GetAllFlags(&flags);
    std::erase_if(flags, IsBuiltIn);
    return flags;
}

const FlagInfo *Find(const std::vector<FlagInfo> &flags, std::string name) {
    std::replace(name.begin(), name.end(), '-', '_');
    const auto found =
        std::find_if(flags.begin(), flags.end(), [&](const FlagInfo &flag) { return flag.name == name; });
    return found == flags.end() ? nullptr : &*found;
}

std::string TypeText(const FlagInfo &flag) {
    if (flag.type == "bool") {
        return "true or false";
    }
    if (flag.type == "double") {
        return "a number";
    }
    if (flag.type == "string") {
        return "a text";
    }
    return flag.type.starts_with("u") ? "a whole number of at least 0" : "a whole number";
}

bool IsHelp(const std::string &name) {
    return name == "h" || name == "help" || name == "helpfull" || name == "helpshort";
}

// A flag of the command line, taken apart.
struct Argument {
    std::string name;
    std::string value;
    bool has_value = false;
};

bool LooksLikeFlag(const std::string &text) {
    return text.size() > 1 && text[0] == '-';
}

Argument Split(const std::string &text) {
    const size_t begin = text.starts_with("--") ? 2 : 1;
    const size_t equals = text.find('=');
    if (equals == std::string::npos) {
        return {text.substr(begin), "", false};
    }
    return {text.substr(begin, equals - begin), text.substr(equals + 1), true};
}

// The flags that the program itself offers, which are the ones to suggest.
std::vector<std::string> OfferedNames(const ProgramInfo &info) {
    std::vector<std::string> names;
    for (const FlagGroup &group : info.groups) {
        names.insert(names.end(), group.flags.begin(), group.flags.end());
    }
    names.insert(names.end(), {"help", "version"});
    return names;
}

UsageError UnknownFlag(const ProgramInfo &info, const std::string &name) {
    const std::string closest = ClosestMatch(name, OfferedNames(info));
    return UsageError("unknown flag --" + name + (closest.empty() ? "" : "; did you mean --" + closest + "?"));
}

void Set(const FlagInfo &flag, const std::string &value) {
    if (gflags::SetCommandLineOption(flag.name.c_str(), value.c_str()).empty()) {
        throw UsageError(fmt::format("flag --{}: expected {}, got '{}'", flag.name, TypeText(flag), value));
    }
}

// Handles the flag at `position` and returns how many arguments it took.
size_t ParseOne(const ProgramInfo &info, const std::vector<FlagInfo> &flags, const std::vector<std::string> &arguments,
                size_t position) {
    const Argument argument = Split(arguments[position]);
    const FlagInfo *flag = Find(flags, argument.name);
    if (flag == nullptr && argument.name.starts_with("no") && !argument.has_value) {
        const FlagInfo *negated = Find(flags, argument.name.substr(2));
        if (negated != nullptr && negated->type == "bool") {
            Set(*negated, "false");
            return 1;
        }
    }
    if (flag == nullptr) {
        throw UnknownFlag(info, argument.name);
    }
    if (argument.has_value || flag->type == "bool") {
        Set(*flag, argument.has_value ? argument.value : "true");
        return 1;
    }
    if (position + 1 == arguments.size()) {
        throw UsageError(fmt::format("flag --{}: expected {} after it, got nothing", flag->name, TypeText(*flag)));
    }
    const std::string &value = arguments[position + 1];
    if (LooksLikeFlag(value) && (IsHelp(Split(value).name) || Find(flags, Split(value).name) != nullptr)) {
        throw UsageError(
            fmt::format("flag --{}: expected {} after it, got the flag {}", flag->name, TypeText(*flag), value));
    }
    Set(*flag, value);
    return 2;
}

std::string Fold(const std::string &text, size_t indent, size_t width) {
    std::string folded;
    size_t column = indent;
    size_t position = 0;
    while (position < text.size()) {
        const size_t end = std::min(text.find(' ', position), text.size());
        const std::string word = text.substr(position, end - position);
        position = end + 1;
        if (column > indent && column + 1 + word.size() > width) {
            folded += "\n" + std::string(indent, ' ');
            column = indent;
        }
        folded += (column > indent ? " " : "") + word;
        column += (column > indent ? 1 : 0) + word.size();
    }
    return folded;
}

std::string FlagHelp(const FlagInfo &flag, size_t indent, size_t width) {
    std::string left = "  --" + flag.name;
    if (flag.type != "bool") {
        left += flag.type == "string" ? " TEXT" : (flag.type == "double" ? " X" : " N");
    }
    std::string right = flag.description;
    if (!flag.default_value.empty() && !(flag.type == "bool" && flag.default_value == "false")) {
        // gflags writes all digits of a double; 0.1 says the same.
        right += " [" +
                 (flag.type == "double" ? fmt::format("{}", std::stod(flag.default_value)) : flag.default_value) + "]";
    }
    left += left.size() + 2 > indent ? "\n" + std::string(indent, ' ') : std::string(indent - left.size(), ' ');
    return left + Fold(right, indent, width) + "\n";
}

// The groups, and one more for flags that stand in the same source files as theirs but in no group.
std::vector<FlagGroup> CompleteGroups(const ProgramInfo &info, const std::vector<FlagInfo> &flags) {
    std::vector<FlagGroup> groups = info.groups;
    std::set<std::string> listed;
    std::set<std::string> files;
    for (const FlagGroup &group : groups) {
        for (const std::string &name : group.flags) {
            listed.insert(name);
            if (const FlagInfo *flag = Find(flags, name)) {
                files.insert(flag->filename);
            }
        }
    }
    FlagGroup others = {"Others", {}};
    for (const FlagInfo &flag : flags) {
        if (files.contains(flag.filename) && !listed.contains(flag.name)) {
            others.flags.push_back(flag.name);
        }
    }
    if (!others.flags.empty()) {
        groups.push_back(others);
    }
    return groups;
}

std::string NumberText(double value) {
    return fmt::format("{}", value);
}

[[noreturn]] void Refuse(const std::string &flag, const std::string &expected, const std::string &got) {
    throw UsageError(fmt::format("flag --{}: expected {}, got {}", flag, expected, got));
}

// The number of letters to add, drop, change or swap with a neighbour to turn one word into the other.
size_t EditDistance(const std::string &a, const std::string &b) {
    std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
    for (size_t i = 0; i <= a.size(); ++i) {
        for (size_t j = 0; j <= b.size(); ++j) {
            if (i == 0 || j == 0) {
                cost[i][j] = i + j;
                continue;
            }
            cost[i][j] =
                std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + (a[i - 1] != b[j - 1] ? 1 : 0)});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
            }
        }
    }
    return cost[a.size()][b.size()];
}

}  // namespace

ParseResult ParseFlags(const ProgramInfo &info, const std::vector<std::string> &arguments) {
    const std::vector<FlagInfo> flags = KnownFlags();
    size_t position = 0;
    while (position < arguments.size()) {
        const std::string &text = arguments[position];
        const std::string name = LooksLikeFlag(text) ? Split(text).name : "";
        if (IsHelp(name)) {
            return ParseResult::kHelp;
        }
        if (name == "version") {
            return ParseResult::kVersion;
        }
        if (name.empty()) {
            const FlagInfo *flag = position > 0 ? Find(flags, Split(arguments[position - 1]).name) : nullptr;
            const bool after_switch = flag != nullptr && flag->type == "bool" && LooksLikeFlag(arguments[position - 1]);
            throw UsageError("unexpected argument '" + text + "'" +
                             (after_switch ? "; write --" + flag->name + "=" + text : ""));
        }
        position += ParseOne(info, flags, arguments, position);
    }
    return ParseResult::kRun;
}

std::string HelpText(const ProgramInfo &info, int width) {
    const size_t columns = static_cast<size_t>(std::clamp(width, 60, 120));
    const std::vector<FlagInfo> flags = KnownFlags();
    std::string text = Fold(info.name + ": " + info.summary, 0, columns) + "\n\nUsage: " + info.name + " [flags]\n";
    const std::vector<FlagGroup> groups = CompleteGroups(info, flags);
    constexpr size_t kIndent = 26;
    for (const FlagGroup &group : groups) {
        text += "\n" + group.title + ":\n";
        for (const std::string &name : group.flags) {
            const FlagInfo *flag = Find(flags, name);
            if (flag == nullptr) {
                throw InternalError("HelpText: expected a defined flag, got --" + name);
            }
            text += FlagHelp(*flag, kIndent, columns);
        }
    }
    text += "\nHelp:\n  -h, --help              show this text\n  --version               show the version\n";
    if (!info.examples.empty()) {
        text += "\nExamples:\n";
    }
    for (const std::string &example : info.examples) {
        text += "  " + example + "\n";
    }
    return text;
}

int RunProgram(const ProgramInfo &info, int argc, char **argv, const std::function<int()> &body) {
    try {
        const ParseResult result = ParseFlags(info, {argv + std::min(argc, 1), argv + argc});
        if (result == ParseResult::kHelp) {
            std::cout << HelpText(info, DetectTerminal(STDOUT_FILENO).width);
            return 0;
        }
        if (result == ParseResult::kVersion) {
            std::cout << info.name << " " << info.version << "\n";
            return 0;
        }
        return body();
    } catch (const UsageError &error) {
        std::cout.flush();
        std::cerr << info.name << ": " << error.what() << "\nRun '" << info.name << " --help' for the flags.\n";
        return 2;
    } catch (const std::exception &error) {
        std::cout.flush();
        std::cerr << info.name << ": " << error.what() << "\n";
        return 1;
    }
}

void RequirePositive(const std::string &flag, double value) {
    if (!(value > 0) || std::isinf(value)) {
        Refuse(flag, "a number above 0", NumberText(value));
    }
}

void RequireNonNegative(const std::string &flag, double value) {
    if (!(value >= 0) || std::isinf(value)) {
        Refuse(flag, "a number of at least 0", NumberText(value));
    }
}

void RequireInRange(const std::string &flag, double value, double low, double high) {
    if (!(value >= low && value <= high)) {
        Refuse(flag, fmt::format("a number from {} to {}", low, high), NumberText(value));
    }
}

void RequireOneOf(const std::string &flag, const std::string &value, const std::vector<std::string> &choices) {
    if (std::find(choices.begin(), choices.end(), value) != choices.end()) {
        return;
    }
    const std::string closest = ClosestMatch(value, choices);
    Refuse(flag, fmt::format("one of {}", fmt::join(choices, ", ")),
           "'" + value + "'" + (closest.empty() ? "" : "; did you mean '" + closest + "'?"));
}

void RequireWritable(const std::string &flag, const std::string &path) {
    if (path.empty()) {
        return;
    }
    namespace fs = std::filesystem;
    std::error_code ignored;
    const fs::path parent = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : fs::path(".");
    if (fs::is_directory(path, ignored)) {
        Refuse(flag, "the path of a file", "the folder '" + path + "'");
    }
    if (!fs::is_directory(parent, ignored)) {
        Refuse(flag, "a path in a folder that exists", "'" + path + "'");
    }
    if (access(fs::exists(path, ignored) ? path.c_str() : parent.c_str(), W_OK) != 0) {
        Refuse(flag, "a path that can be written", "'" + path + "'");
    }
}

void RequireReadable(const std::string &flag, const std::string &path) {
    std::error_code ignored;
    if (!path.empty() && (std::filesystem::is_directory(path, ignored) || access(path.c_str(), R_OK) != 0)) {
        Refuse(flag, "a file that can be read", "'" + path + "'");
    }
}

std::string ClosestMatch(const std::string &word, const std::vector<std::string> &candidates) {
    std::string best;
    size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
    for (const std::string &candidate : candidates) {
        const size_t distance = EditDistance(word, candidate);
        if (distance < best_distance) {
            best_distance = distance;
            best = candidate;
        }
    }
    for (const std::string &candidate : candidates) {
        const bool contains = word.size() >= 3 && candidate.size() >= 3 &&
                              (candidate.find(word) != std::string::npos || word.find(candidate) != std::string::npos);
        if (best.empty() && contains) {
            best = candidate;
        }
    }
    return best;
}

}  // namespace infini_train::example
