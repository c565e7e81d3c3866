// The toolkit's type and conversions, and what it has for device code only.
#pragma once

#include_next <cuda_fp16.h>
#include <cuda_runtime.h>

inline __half __hfma(__half a, __half b, __half c) {
    // The product is exact in double, and so few bits are lost in the sum that the second rounding changes nothing.
    return __double2half(static_cast<double>(__half2float(a)) * __half2float(b) + __half2float(c));
}
template <>
inline __half atomicAdd(__half *address, __half value) {
    return cuda_emulation::AtomicUpdate(address, [&](__half old) { return __hadd(old, value); });
}
