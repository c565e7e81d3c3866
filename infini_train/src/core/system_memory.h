#pragma once

#include <cstddef>

namespace infini_train {

/// The bytes that this process could have at most: the machine's memory and swap, or its control group's limit.
size_t MemoryLimit();

/// The bytes that the system could give now without swapping; 0 where it doesn't tell.
size_t FreeMemory();

}  // namespace infini_train
