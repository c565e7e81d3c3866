// The toolkit's type and conversions, and what it has for device code only.
#pragma once

#include_next <cuda_bf16.h>
#include <cuda_runtime.h>

inline __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
    return __double2bfloat16(static_cast<double>(__bfloat162float(a)) * __bfloat162float(b) + __bfloat162float(c));
}
template <>
inline __nv_bfloat16 atomicAdd(__nv_bfloat16 *address, __nv_bfloat16 value) {
    return cuda_emulation::AtomicUpdate(address, [&](__nv_bfloat16 old) { return __hadd(old, value); });
}
