// What nvcc knows without being told: qualifiers, built-in variables and functions of device code, on the CPU.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#undef __host__
#undef __device__
#undef __global__
#undef __shared__
#undef __constant__
#undef __launch_bounds__
#undef __grid_constant__
#define __host__
#define __device__
#define __global__
// Static inside of functions without saying so, legal as an extern array, and at addresses that tell it from the rest.
#define __shared__ thread_local
#define __constant__
#define __launch_bounds__(...)
#define __grid_constant__
#define __CUDA_EMULATION__ 1

// Under the checker, kernels are compiled with -fsanitize=thread; the emulation's own parts must not be.
#ifdef __SANITIZE_THREAD__
#define CUDA_EMULATION_UNCHECKED __attribute__((no_sanitize("thread")))
#else
#define CUDA_EMULATION_UNCHECKED
#endif

// Set whenever another thread of the grid goes on. Variables, because the toolkit's own types have members of these
// names; constant, so that reading them isn't instrumented.
extern const uint3 threadIdx asm("cuda_emulation_thread_index");
extern const uint3 blockIdx asm("cuda_emulation_block_index");
extern const dim3 blockDim asm("cuda_emulation_block_dim");
extern const dim3 gridDim asm("cuda_emulation_grid_dim");
constexpr int warpSize = 32;

#include "cuda_emulation/atomics.h"
#include "cuda_emulation/collectives.h"
#include "cuda_emulation/launch.h"
#include "cuda_emulation/math.h"
