// The calls that -fsanitize=thread plants in kernels. ThreadSanitizer's own library isn't linked.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "test/cuda_emulation/checker/access.h"

using cuda_emulation::checker::Access;
using cuda_emulation::checker::Check;

namespace {

void Note(const void *address, size_t bytes, bool is_write, const void *pc, bool may_be_misaligned = false) {
    Check(Access{static_cast<const char *>(address), bytes, pc, is_write, false, may_be_misaligned});
}

// Memory of the device has exact bounds and is uninitialised anew only if the library's allocator doesn't keep it.
[[maybe_unused]] const int no_cache = setenv("INFINI_TRAIN_CUDA_CACHE", "0", /*overwrite=*/0);

}  // namespace

#define CUDA_EMULATION_ACCESS(size)                              \
    void __tsan_read##size(void *p) {                            \
        Note(p, size, false, __builtin_return_address(0));       \
    }                                                            \
    void __tsan_write##size(void *p) {                           \
        Note(p, size, true, __builtin_return_address(0));        \
    }                                                            \
    void __tsan_volatile_read##size(void *p) {                   \
        Note(p, size, false, __builtin_return_address(0));       \
    }                                                            \
    void __tsan_volatile_write##size(void *p) {                  \
        Note(p, size, true, __builtin_return_address(0));        \
    }                                                            \
    void __tsan_unaligned_read##size(void *p) {                  \
        Note(p, size, false, __builtin_return_address(0), true); \
    }                                                            \
    void __tsan_unaligned_write##size(void *p) {                 \
        Note(p, size, true, __builtin_return_address(0), true);  \
    }                                                            \
    void __tsan_read##size##_pc(void *p, void *pc) {             \
        Note(p, size, false, pc);                                \
    }                                                            \
    void __tsan_write##size##_pc(void *p, void *pc) {            \
        Note(p, size, true, pc);                                 \
    }                                                            \
    void __tsan_read_write##size(void *p) {                      \
        Note(p, size, false, __builtin_return_address(0));       \
        Note(p, size, true, __builtin_return_address(0));        \
    }

// Host code's; the order is the strongest whatever was asked for.
#define CUDA_EMULATION_ATOMIC(bits, T)                                                                 \
    T __tsan_atomic##bits##_load(const volatile T *p, int) {                                           \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                   \
    }                                                                                                  \
    void __tsan_atomic##bits##_store(volatile T *p, T v, int) {                                        \
        __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                      \
    }                                                                                                  \
    T __tsan_atomic##bits##_exchange(volatile T *p, T v, int) {                                        \
        return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                                            \
    }                                                                                                  \
    T __tsan_atomic##bits##_fetch_add(volatile T *p, T v, int) {                                       \
        return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);                                             \
    }                                                                                                  \
    T __tsan_atomic##bits##_fetch_sub(volatile T *p, T v, int) {                                       \
        return __atomic_fetch_sub(p, v, __ATOMIC_SEQ_CST);                                             \
    }                                                                                                  \
    T __tsan_atomic##bits##_fetch_and(volatile T *p, T v, int) {                                       \
        return __atomic_fetch_and(p, v, __ATOMIC_SEQ_CST);                                             \
    }                                                                                                  \
    T __tsan_atomic##bits##_fetch_or(volatile T *p, T v, int) {                                        \
        return __atomic_fetch_or(p, v, __ATOMIC_SEQ_CST);                                              \
    }                                                                                                  \
    T __tsan_atomic##bits##_fetch_xor(volatile T *p, T v, int) {                                       \
        return __atomic_fetch_xor(p, v, __ATOMIC_SEQ_CST);                                             \
    }                                                                                                  \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile T *p, T *expected, T v, int, int) {     \
        return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
    }                                                                                                  \
    int __tsan_atomic##bits##_compare_exchange_weak(volatile T *p, T *expected, T v, int, int) {       \
        return __atomic_compare_exchange_n(p, expected, v, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);  \
    }

extern "C" {

CUDA_EMULATION_ACCESS(1)
CUDA_EMULATION_ACCESS(2)
CUDA_EMULATION_ACCESS(4)
CUDA_EMULATION_ACCESS(8)
CUDA_EMULATION_ACCESS(16)
CUDA_EMULATION_ATOMIC(8, uint8_t)
CUDA_EMULATION_ATOMIC(16, uint16_t)
CUDA_EMULATION_ATOMIC(32, uint32_t)
CUDA_EMULATION_ATOMIC(64, uint64_t)

void __tsan_read_range(void *p, size_t bytes) {
    Note(p, bytes, false, __builtin_return_address(0), true);
}
void __tsan_write_range(void *p, size_t bytes) {
    Note(p, bytes, true, __builtin_return_address(0), true);
}
void *__tsan_memcpy(void *to, const void *from, size_t bytes) {
    Note(from, bytes, false, __builtin_return_address(0), true);
    Note(to, bytes, true, __builtin_return_address(0), true);
    return std::memcpy(to, from, bytes);
}
void *__tsan_memmove(void *to, const void *from, size_t bytes) {
    Note(from, bytes, false, __builtin_return_address(0), true);
    Note(to, bytes, true, __builtin_return_address(0), true);
    return std::memmove(to, from, bytes);
}
void *__tsan_memset(void *to, int value, size_t bytes) {
    Note(to, bytes, true, __builtin_return_address(0), true);
    return std::memset(to, value, bytes);
}

void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void **, void *) {}
void __tsan_vptr_read(void **) {}
void __tsan_atomic_thread_fence(int) {}
void __tsan_atomic_signal_fence(int) {}

}  // extern "C"
