// cp.async by the toolkit's primitives: what was copied is there only once it was waited for.
#pragma once

#include <cstddef>

#include <cuda_runtime.h>

inline void __pipeline_memcpy_async(void *to, const void *from, size_t size, size_t zeros = 0) {
    cuda_emulation::CopyAsync(to, from, size, zeros, __builtin_return_address(0));
}
inline void __pipeline_commit() {
    cuda_emulation::CommitCopies();
}
inline void __pipeline_wait_prior(unsigned groups) {
    cuda_emulation::WaitForCopies(groups);
}
