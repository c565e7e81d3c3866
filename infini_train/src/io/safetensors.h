#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "infini_train/include/io/safetensors.h"

namespace infini_train::io {

/// What tells a file from a damaged one.
struct FileSum {
    uint64_t bytes = 0;
    uint32_t crc32 = 0;
    friend bool operator==(const FileSum &, const FileSum &) = default;
};

/// SaveSafetensors, with the sum of what it wrote.
FileSum WriteSafetensors(const std::string &path, const std::map<std::string, TensorPtr> &tensors,
                         const std::map<std::string, std::string> &metadata = {});

}  // namespace infini_train::io
