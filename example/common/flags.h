#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "infini_train/include/common/error.h"

namespace infini_train::example {

/// A command line that can't be followed. RunProgram prints it with a hint at --help and ends with status 2.
class UsageError : public Error {
    using Error::Error;
};

/// A part of the help: its title and the gflags flags (DEFINE_int32 and so on) that it shows, in this order.
struct FlagGroup {
    std::string title;
    std::vector<std::string> flags;
};

/// What --help and --version say.
struct ProgramInfo {
    std::string name;     // "mnist"
    std::string summary;  // One or two sentences.
    std::string version;  // "1.0.0"
    std::vector<FlagGroup> groups;
    std::vector<std::string> examples;  // Command lines without a prompt.
};

enum class ParseResult {
    kRun,
    kHelp,
    kVersion,
};

/// Sets the gflags flags from the command line: --name=value, --name value, --switch, --noswitch, with one dash or two,
/// '-' and '_' alike. Says kHelp or kVersion if -h, --help or --version is there before any mistake. Never ends the
/// program, unlike gflags' own parser. Throws UsageError: `unknown flag --foo; did you mean --food?`,
/// `flag --bs: expected a whole number, got 'abc'`, and for arguments that are no flags.
ParseResult ParseFlags(const ProgramInfo &info, const std::vector<std::string> &arguments);

/// The whole help, folded to `width` columns. Flags defined beside the listed ones, but in no group, come last.
std::string HelpText(const ProgramInfo &info, int width);

/// Parses the flags, then runs `body` and returns its status. Prints help, version and errors: a UsageError (status 2)
/// with a hint, any other exception (status 1) as it is.
int RunProgram(const ProgramInfo &info, int argc, char **argv, const std::function<int()> &body);

/// Checks that return nothing and throw a UsageError that names the flag, the expected range and the value.
void RequirePositive(const std::string &flag, double value);
void RequireNonNegative(const std::string &flag, double value);
/// Both ends belong to the range.
void RequireInRange(const std::string &flag, double value, double low, double high);
/// Suggests the closest choice if there is one.
void RequireOneOf(const std::string &flag, const std::string &value, const std::vector<std::string> &choices);
/// That a file can be written at `path`, or the value is empty; run before hours of training, not after.
void RequireWritable(const std::string &flag, const std::string &path);
/// That a file can be read at `path`, or the value is empty.
void RequireReadable(const std::string &flag, const std::string &path);

/// The member of `candidates` most like `word`, or "" if none is near: a few typing errors away, or one contains the
/// other.
std::string ClosestMatch(const std::string &word, const std::vector<std::string> &candidates);

}  // namespace infini_train::example
