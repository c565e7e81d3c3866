// Stands before the toolkit's cuda_fp16.h; adds what is device-only there.
#pragma once

#include_next <cuda_fp16.h>
#include <cuda_runtime.h>

inline __half __hfma(__half a, __half b, __half c) {
    return __float2half_rn(
        static_cast<float>(static_cast<double>(__half2float(a)) * __half2float(b) + __half2float(c)));
}
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
template <>
inline __half atomicAdd(__half *address, __half value) {
    return ::cuda_emulation::Exchange(address, [&](__half old) { return __hadd(old, value); });
}
template <>
inline __half2 atomicAdd(__half2 *address, __half2 value) {
    return ::cuda_emulation::Exchange(address, [&](__half2 old) { return __hadd2(old, value); });
}
