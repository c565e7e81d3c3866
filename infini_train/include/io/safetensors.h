#pragma once

#include <map>
#include <string>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train::io {

/// Reads a safetensors file: all its tensors, on the CPU. `metadata`, if given, receives the free text of the header.
///
/// Throws IoError, with the path, what was expected and what was found, for a file that can't be read, whose header is
/// longer than the file or than 100 MB, isn't a JSON object, names a tensor twice, or describes one by an unknown data
/// type, a shape that overflows, or offsets that don't match the shape, overlap, leave a gap or reach past the end.
/// Nothing is allocated before all of that has been checked.
INFINI_TRAIN_EXPORT std::map<std::string, TensorPtr> LoadSafetensors(
    const std::string &path, std::map<std::string, std::string> *metadata = nullptr);

/// Writes one. The file appears under its name when it is complete: what was there before stays until then. Throws
/// ValueError for a null tensor or the name `__metadata__`, IoError with the system's reason.
INFINI_TRAIN_EXPORT void SaveSafetensors(const std::string &path, const std::map<std::string, TensorPtr> &tensors,
                                         const std::map<std::string, std::string> &metadata = {});

}  // namespace infini_train::io
