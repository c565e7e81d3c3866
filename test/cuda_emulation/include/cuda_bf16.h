// Stands before the toolkit's cuda_bf16.h; adds what is device-only there.
#pragma once

#include_next <cuda_bf16.h>
#include <cuda_runtime.h>

inline __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
    // Products of two bfloat16 are exact in double, and so is the sum but for cases that no rounding to 8 bits sees.
    return __float2bfloat16_rn(
        static_cast<float>(static_cast<double>(__bfloat162float(a)) * __bfloat162float(b) + __bfloat162float(c)));
}
inline __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) {
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
template <>
inline __nv_bfloat16 atomicAdd(__nv_bfloat16 *address, __nv_bfloat16 value) {
    return ::cuda_emulation::Exchange(address, [&](__nv_bfloat16 old) { return __hadd(old, value); });
}
template <>
inline __nv_bfloat162 atomicAdd(__nv_bfloat162 *address, __nv_bfloat162 value) {
    return ::cuda_emulation::Exchange(address, [&](__nv_bfloat162 old) { return __hadd2(old, value); });
}
