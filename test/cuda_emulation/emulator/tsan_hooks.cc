// The functions that code compiled with -fsanitize=thread calls, in place of ThreadSanitizer's own.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "test/cuda_emulation/emulator/block.h"
#include "test/cuda_emulation/emulator/defects.h"
#include "test/cuda_emulation/emulator/shadow.h"

namespace {

using cuda_emulation::Access;
using cuda_emulation::ShadowAccess;

void Aligned(const void *address, size_t size, Access access, const void *caller) {
    if (reinterpret_cast<uintptr_t>(address) % size != 0 && cuda_emulation::IsInKernel()) {
        cuda_emulation::ReportDefect("misaligned access", caller);
    }
    ShadowAccess(address, size, access, caller);
}

}  // namespace

extern "C" {

#define CALLER __builtin_return_address(0)
#define HOOKS(size)                                       \
    void __tsan_read##size(void *p) {                     \
        Aligned(p, size, Access::kRead, CALLER);          \
    }                                                     \
    void __tsan_write##size(void *p) {                    \
        Aligned(p, size, Access::kWrite, CALLER);         \
    }                                                     \
    void __tsan_volatile_read##size(void *p) {            \
        Aligned(p, size, Access::kRead, CALLER);          \
    }                                                     \
    void __tsan_volatile_write##size(void *p) {           \
        Aligned(p, size, Access::kWrite, CALLER);         \
    }                                                     \
    void __tsan_unaligned_read##size(void *p) {           \
        ShadowAccess(p, size, Access::kRead, CALLER);     \
    }                                                     \
    void __tsan_unaligned_write##size(void *p) {          \
        ShadowAccess(p, size, Access::kWrite, CALLER);    \
    }                                                     \
    void __tsan_unaligned_volatile_read##size(void *p) {  \
        ShadowAccess(p, size, Access::kRead, CALLER);     \
    }                                                     \
    void __tsan_unaligned_volatile_write##size(void *p) { \
        ShadowAccess(p, size, Access::kWrite, CALLER);    \
    }

HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
#undef HOOKS

void __tsan_read_range(void *p, size_t size) {
    ShadowAccess(p, size, Access::kRead, CALLER);
}
void __tsan_write_range(void *p, size_t size) {
    ShadowAccess(p, size, Access::kWrite, CALLER);
}
void *__tsan_memcpy(void *to, const void *from, size_t size) {
    ShadowAccess(from, size, Access::kRead, CALLER);
    ShadowAccess(to, size, Access::kWrite, CALLER);
    return std::memcpy(to, from, size);
}
void *__tsan_memmove(void *to, const void *from, size_t size) {
    ShadowAccess(from, size, Access::kRead, CALLER);
    ShadowAccess(to, size, Access::kWrite, CALLER);
    return std::memmove(to, from, size);
}
void *__tsan_memset(void *to, int value, size_t size) {
    ShadowAccess(to, size, Access::kWrite, CALLER);
    return std::memset(to, value, size);
}
// Host code of the same files uses atomics, such as shared pointers' counts.
#define ATOMICS(bits, T)                                                                                           \
    T __tsan_atomic##bits##_load(const volatile T *p, int) {                                                       \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                               \
    }                                                                                                              \
    void __tsan_atomic##bits##_store(volatile T *p, T value, int) {                                                \
        __atomic_store_n(p, value, __ATOMIC_SEQ_CST);                                                              \
    }                                                                                                              \
    T __tsan_atomic##bits##_exchange(volatile T *p, T value, int) {                                                \
        return __atomic_exchange_n(p, value, __ATOMIC_SEQ_CST);                                                    \
    }                                                                                                              \
    T __tsan_atomic##bits##_fetch_add(volatile T *p, T value, int) {                                               \
        return __atomic_fetch_add(p, value, __ATOMIC_SEQ_CST);                                                     \
    }                                                                                                              \
    T __tsan_atomic##bits##_fetch_sub(volatile T *p, T value, int) {                                               \
        return __atomic_fetch_sub(p, value, __ATOMIC_SEQ_CST);                                                     \
    }                                                                                                              \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile T *p, T *expected, T value, int, int) {             \
        return __atomic_compare_exchange_n(p, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) ? 1 : 0; \
    }                                                                                                              \
    int __tsan_atomic##bits##_compare_exchange_weak(volatile T *p, T *expected, T value, int, int) {               \
        return __atomic_compare_exchange_n(p, expected, value, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) ? 1 : 0;  \
    }

ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)
#undef ATOMICS

void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void **, void *) {}
void __tsan_vptr_read(void **) {}

}  // extern "C"
