#pragma once

#include <cstddef>
#include <cstdint>

#include "test/cuda_emulation/checker/clock.h"

namespace cuda_emulation::checker {

/// The last write and the last reads.
struct Cell {
    Record write;
    Record read;
};

/// Memory of the device and what is known of it: a cell for each word, and one for each byte of words that were not
/// accessed whole.
class Shadow {
public:
    /// Of `bytes` bytes; the pages come when they are used.
    explicit Shadow(size_t bytes);

    Cell *Word(size_t offset) { return words_ + offset / 4; }
    Cell *Byte(size_t offset) { return bytes_ + offset; }

private:
    Cell *words_;
    Cell *bytes_;
};

/// Zeroed memory that is there once touched.
void *ReservePages(size_t bytes);

}  // namespace cuda_emulation::checker
