#pragma once

#include <cstddef>

namespace cuda_emulation::checker {

struct Access {
    const char *address;
    size_t bytes;
    const void *pc;
    bool is_write;
    bool is_atomic = false;
    bool may_be_misaligned = false;
};

/// Everything a kernel's thread reads or writes.
void Check(const Access &access);

}  // namespace cuda_emulation::checker
