#include "test/cuda_emulation/runtime/symbols.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <map>
#include <vector>

namespace cuda_emulation {
namespace {

struct Frame {
    std::string function, path;
};

// What addr2line says of an address, innermost frame first. Rare enough for a process each.
std::vector<Frame> Ask(uintptr_t address) {
    Dl_info info{};
    if (dladdr(reinterpret_cast<const void *>(address), &info) == 0 || info.dli_fname == nullptr) {
        return {};
    }
    char command[1024];
    std::snprintf(command, sizeof(command), "addr2line -C -i -f -e '%s' %#zx 2>/dev/null", info.dli_fname,
                  static_cast<size_t>(address - reinterpret_cast<uintptr_t>(info.dli_fbase)));
    std::vector<Frame> frames;
    if (FILE *const pipe = popen(command, "r")) {
        char *line = nullptr;
        size_t capacity = 0;
        std::vector<std::string> lines;
        for (ssize_t length = 0; (length = getline(&line, &capacity, pipe)) > 0;) {
            lines.emplace_back(line, static_cast<size_t>(length) - (line[length - 1] == '\n' ? 1 : 0));
        }
        std::free(line);
        pclose(pipe);
        for (size_t i = 0; i + 1 < lines.size(); i += 2) {
            frames.push_back({lines[i], lines[i + 1]});
        }
    }
    return frames;
}

std::string WithoutParameters(std::string name) {
    for (const char *const noise : {"(anonymous namespace)::", "void "}) {
        for (size_t at = 0; (at = name.find(noise)) != std::string::npos;) {
            name.erase(at, std::char_traits<char>::length(noise));
        }
    }
    name.resize(std::min(name.find('('), name.size()));
    return name;
}

// "/path/file.cu:12 (discriminator 3)" to a file's name and a line.
void Split(const std::string &path, Site *site) {
    const size_t slash = path.rfind('/');
    const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
    const size_t colon = name.find(':');
    site->file = name.substr(0, colon);
    site->line = colon == std::string::npos ? 0 : std::atoi(name.c_str() + colon + 1);
}

}  // namespace

const Site &SiteOf(const void *pc) {
    static std::map<const void *, Site> known;
    const auto [place, is_new] = known.try_emplace(pc);
    if (!is_new || pc == nullptr) {
        return place->second;
    }
    Site &site = place->second;
    for (const Frame &frame : Ask(reinterpret_cast<uintptr_t>(pc) - 1)) {
        if (frame.path.find("cuda_emulation/include/") != std::string::npos || frame.path.starts_with("??")) {
            continue;
        }
        Site step;
        Split(frame.path, &step);
        if (site.file.empty()) {
            site.file = step.file;
            site.line = step.line;
            site.function = WithoutParameters(frame.function);
        }
        site.chain += (site.chain.empty() ? "" : " in ") + step.file + ":" + std::to_string(step.line);
    }
    return site;
}

const std::string &FunctionName(const void *function) {
    static std::map<const void *, std::string> known;
    const auto [place, is_new] = known.try_emplace(function);
    if (is_new && function != nullptr) {
        const auto frames = Ask(reinterpret_cast<uintptr_t>(function));
        place->second = frames.empty() ? "?" : WithoutParameters(frames.back().function);
    }
    return place->second;
}

}  // namespace cuda_emulation
