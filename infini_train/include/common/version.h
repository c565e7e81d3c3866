#pragma once

// The one place where the version is written; CMake reads it from here.
#define INFINI_TRAIN_VERSION_MAJOR 0
#define INFINI_TRAIN_VERSION_MINOR 1
#define INFINI_TRAIN_VERSION_PATCH 0

namespace infini_train {

/// The version of the headers that a program was compiled with.
inline constexpr int kVersionMajor = INFINI_TRAIN_VERSION_MAJOR;
inline constexpr int kVersionMinor = INFINI_TRAIN_VERSION_MINOR;
inline constexpr int kVersionPatch = INFINI_TRAIN_VERSION_PATCH;

}  // namespace infini_train
