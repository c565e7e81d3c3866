#pragma once

/// Before a loop: no iteration reads what another writes, so it is vectorised without a test for overlap. Elementwise
/// kernels may still write over an input, element by element.
#if defined(__clang__)
#define INFINI_TRAIN_INDEPENDENT_LOOP _Pragma("clang loop vectorize(assume_safety)")
// A loop that calls the standard library stays scalar, which is no news.
#pragma clang diagnostic ignored "-Wpass-failed"
#elif defined(__GNUC__)
#define INFINI_TRAIN_INDEPENDENT_LOOP _Pragma("GCC ivdep")
#else
#define INFINI_TRAIN_INDEPENDENT_LOOP
#endif
