// What nvcc's keywords mean to a C++ compiler.
#pragma once

#undef __host__
#undef __device__
#undef __global__
#undef __shared__
#undef __constant__
#undef __managed__
#undef __launch_bounds__
#undef __grid_constant__
#define __host__
#define __device__
#define __global__
// Makes variables of functions static, and an array without a size may be declared extern. A block's threads are fibers
// of one thread, so they share it; and its addresses tell the checker what is shared memory.
#ifdef __clang__
#define __shared__ thread_local
#else
#define __shared__ constinit thread_local  // or GCC guards arrays of classes by a variable
#endif
#define __constant__
#define __managed__
#define __launch_bounds__(...)
#define __grid_constant__

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CUDA_EMULATION_CHECKED 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define CUDA_EMULATION_CHECKED 1
#endif

// For functions of the emulation itself. Not inlined, so that the address they return to is the kernel's.
#ifdef CUDA_EMULATION_CHECKED
#define CUDA_EMULATION_UNCHECKED __attribute__((no_sanitize("thread")))
#else
#define CUDA_EMULATION_UNCHECKED
#endif
#define CUDA_EMULATION_ENTRY __attribute__((noinline)) CUDA_EMULATION_UNCHECKED
#define CUDA_EMULATION_INLINE inline __attribute__((always_inline))
