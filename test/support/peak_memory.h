#pragma once

#include <cstdint>
#include <fstream>
#include <ostream>
#include <string>

// Under a sanitizer memory has another measure.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define INFINI_TRAIN_SANITIZED 1
#else
#define INFINI_TRAIN_SANITIZED 0
#endif

namespace infini_train::test {

/// The peak of this process's memory since the last reset, in bytes; 0 where the system doesn't tell.
inline int64_t PeakMemory() {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
        if (word == "VmHWM:") {
            int64_t kib = 0;
            status >> kib;
            return kib * 1024;
        }
    }
    return 0;
}

inline bool ResetPeakMemory() {
    std::ofstream file("/proc/self/clear_refs");
    file << "5" << std::flush;
    return file.good();
}

}  // namespace infini_train::test
