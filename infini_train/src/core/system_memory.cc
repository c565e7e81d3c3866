#include "infini_train/src/core/system_memory.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <sys/sysinfo.h>

namespace infini_train {
namespace {

constexpr size_t kUnlimited = std::numeric_limits<size_t>::max();

// A number in a file of its own; kUnlimited if there is none, such as in "max".
size_t ReadNumber(const char *path) {
    std::ifstream file(path);
    size_t value = 0;
    return file >> value ? value : kUnlimited;
}

}  // namespace

size_t MemoryLimit() {
    static const size_t limit = [] {
        struct sysinfo info {};
        const size_t machine =
            sysinfo(&info) == 0 ? (static_cast<size_t>(info.totalram) + info.totalswap) * info.mem_unit : kUnlimited;
        return std::min({machine, ReadNumber("/sys/fs/cgroup/memory.max"),
                         ReadNumber("/sys/fs/cgroup/memory/memory.limit_in_bytes")});
    }();
    return limit;
}

size_t FreeMemory() {
    std::ifstream file("/proc/meminfo");
    std::string name;
    std::string unit;
    size_t kibibytes = 0;
    while (file >> name >> kibibytes && std::getline(file, unit)) {
        if (name == "MemAvailable:") {
            return kibibytes * 1024;
        }
    }
    return 0;
}

}  // namespace infini_train
