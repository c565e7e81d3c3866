#pragma once

// Chooses Highway's targets for the CPU kernels: the baseline, AVX2 and AVX-512 on x86, NEON on Arm. The others cost
// compile time without a gain (SSE4), or have vectors of unknown length, of which C++ can't make arrays (SVE, RVV).
// Include it before any header of Highway:
//
//     #include "infini_train/src/kernels/cpu/simd_targets.h"
//     #undef HWY_TARGET_INCLUDE
//     #define HWY_TARGET_INCLUDE "infini_train/src/kernels/cpu/some_kernel.cc"
//     #include <hwy/foreach_target.h>
//     #include <hwy/highway.h>

// The macros are Highway's target constants, which it defines later than this.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
    (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
