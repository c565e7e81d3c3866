#include "test/cuda_emulation/emulator/defects.h"

#include <cstdio>
#include <dlfcn.h>
#include <map>
#include <set>
#include <utility>

#include "test/cuda_emulation/emulator/block.h"
#include "test/cuda_emulation/emulator/state.h"

namespace cuda_emulation {
namespace {

std::vector<std::string> defects;
std::set<std::pair<std::string, const void *>> reported;

// The innermost line that isn't the emulation's own.
std::string AskForLine(const void *caller) {
    Dl_info info{};
    if (dladdr(caller, &info) == 0) {
        return "?";
    }
    const size_t offset = static_cast<const char *>(caller) - 1 - static_cast<const char *>(info.dli_fbase);
    char command[600];
    std::snprintf(command, sizeof(command), "addr2line -i -e '%s' %#zx 2>/dev/null", info.dli_fname, offset);
    std::string line = "?";
    if (FILE *const output = popen(command, "r")) {
        char buffer[600];
        while (std::fgets(buffer, sizeof(buffer), output) != nullptr) {
            std::string candidate = buffer;
            candidate.resize(candidate.find_first_of("\n("));
            while (!candidate.empty() && candidate.back() == ' ') {
                candidate.pop_back();
            }
            if (candidate.find("cuda_emulation/include/") == std::string::npos &&
                candidate.find("/c++/") == std::string::npos) {
                line = candidate;
                break;
            }
        }
        pclose(output);
    }
    const size_t slash = line.rfind('/');
    return slash == std::string::npos ? line : line.substr(slash + 1);
}

}  // namespace

std::vector<std::string> TakeDefects() {
    device_error = cudaSuccess;
    last_error = cudaSuccess;
    reported.clear();
    return std::exchange(defects, {});
}

std::string SourceLine(const void *caller) {
    static std::map<const void *, std::string> known;
    std::string &line = known[caller];
    if (line.empty()) {
        line = caller == nullptr ? "?" : AskForLine(caller);
    }
    return line;
}

void ReportDefect(const std::string &what, const void *caller, const std::string &more) {
    device_error = cudaErrorLaunchFailure;
    if (!reported.insert({what, caller}).second) {
        return;
    }
    std::string text = what;
    if (caller != nullptr) {
        text += " at " + SourceLine(caller);
    }
    text += DescribeRunningThread() + more;
    std::fprintf(stderr, "CUDA emulation: %s\n", text.c_str());
    defects.push_back(std::move(text));
}

}  // namespace cuda_emulation
