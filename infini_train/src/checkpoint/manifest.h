#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "infini_train/src/io/safetensors.h"

namespace infini_train {

inline constexpr char kManifestFile[] = "checkpoint.json";
inline constexpr char kModelFile[] = "model.safetensors";
inline constexpr char kOptimizerFile[] = "optimizer.safetensors";
inline constexpr char kTrainingFile[] = "training.safetensors";

/// What checkpoint.json says.
struct Manifest {
    int64_t step = 0;
    std::string library_version;
    std::map<std::string, std::string> flags;
    std::map<std::string, io::FileSum> files;
};

/// Throws ValueError for flags that aren't UTF-8.
std::string ToText(const Manifest &manifest);

/// Reads `folder`/checkpoint.json; IoError unless it is what ToText wrote, to the bit.
Manifest ReadManifest(const std::string &folder);

/// Throws IoError unless the files are there with their sums.
void VerifyFiles(const std::string &folder, const Manifest &manifest);

}  // namespace infini_train
