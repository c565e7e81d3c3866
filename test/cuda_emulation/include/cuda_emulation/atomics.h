// Atomics: fibers never run at once, so a plain read and write is one.
#pragma once

#include <algorithm>
#include <type_traits>

#include "cuda_emulation/builtins.h"

namespace cuda_emulation {

template <typename T, typename F>
CUDA_EMULATION_ENTRY T Exchange(T *address, F &&change) {
    OnAtomic(address, sizeof(T), __builtin_return_address(0));
    const T old = *address;
    *address = change(old);
    return old;
}

}  // namespace cuda_emulation

// The second argument is converted to the first one's type, as with CUDA's overloads.
#define CUDA_EMULATION_ATOMIC(name, result)                                                                    \
    template <typename T>                                                                                      \
    CUDA_EMULATION_INLINE T name(T *address, std::type_identity_t<T> value) {                                  \
        return ::cuda_emulation::Exchange(address, [&](T old) CUDA_EMULATION_UNCHECKED { return T(result); }); \
    }
CUDA_EMULATION_ATOMIC(atomicAdd, old + value)
CUDA_EMULATION_ATOMIC(atomicSub, old - value)
CUDA_EMULATION_ATOMIC(atomicMax, (old < value ? value : old))
CUDA_EMULATION_ATOMIC(atomicMin, (value < old ? value : old))
CUDA_EMULATION_ATOMIC(atomicExch, value)
CUDA_EMULATION_ATOMIC(atomicOr, old | value)
CUDA_EMULATION_ATOMIC(atomicAnd, old &value)
CUDA_EMULATION_ATOMIC(atomicXor, old ^ value)
CUDA_EMULATION_ATOMIC(atomicInc, (old >= value ? 0 : old + 1))
CUDA_EMULATION_ATOMIC(atomicDec, (old == 0 || old > value ? value : old - 1))
#undef CUDA_EMULATION_ATOMIC

template <typename T>
CUDA_EMULATION_INLINE T atomicCAS(T *address, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
    return ::cuda_emulation::Exchange(address,
                                      [&](T old) CUDA_EMULATION_UNCHECKED { return old == expected ? T(value) : old; });
}
