// Asynchronous copies to shared memory: they take effect when they are waited for, not before.
#pragma once

#include <cuda_runtime.h>

namespace cuda_emulation {
void QueueCopy(void *to, const void *from, size_t bytes, size_t zero_bytes, void *pc);
void CommitCopies();
void WaitForCopies(unsigned prior);
}  // namespace cuda_emulation

__attribute__((noinline)) inline void __pipeline_memcpy_async(void *to, const void *from, size_t bytes,
                                                              size_t zero_bytes = 0) {
    ::cuda_emulation::QueueCopy(to, from, bytes, zero_bytes, __builtin_return_address(0));
}
inline void __pipeline_commit() {
    ::cuda_emulation::CommitCopies();
}
inline void __pipeline_wait_prior(unsigned prior) {
    ::cuda_emulation::WaitForCopies(prior);
}
