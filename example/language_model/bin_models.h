#pragma once

#include <cstdint>
#include <string>

#include "infini_train/include/io/binary_file.h"

#include "example/language_model/model_files.h"

namespace infini_train::example {

/// How a model is to be made.
struct ModelOptions {
    DataType dtype = DataType::kFLOAT32;
    Device device;
    double dropout = 0.0;
};

/// The first number of llm.c's GPT-2, and of llama2.c's files from version 1 on.
inline constexpr uint32_t kLlmCMagic = 20240326;
inline constexpr uint32_t kLlama2CMagic = 0x616b3432;

LoadedModel LoadLlmC(const io::BinaryFile &file, const ModelOptions &options);
LoadedModel LoadLlama2C(const io::BinaryFile &file, const ModelOptions &options);
/// The format that begins with the sizes.
LoadedModel LoadLlama2CFirst(const io::BinaryFile &file, const ModelOptions &options);

}  // namespace infini_train::example
