// Loads with a cache's hint, bit tricks, and arithmetic that exists on the device alone: the same rounding, but no
// approximations, so fast-math functions are more accurate here.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <math.h>
#include <type_traits>

#include "cuda_emulation/qualifiers.h"

#define CUDA_EMULATION_LOAD(name)                    \
    template <typename T>                            \
    CUDA_EMULATION_INLINE T name(const T *address) { \
        return *address;                             \
    }
CUDA_EMULATION_LOAD(__ldg)
CUDA_EMULATION_LOAD(__ldcs)
CUDA_EMULATION_LOAD(__ldcg)
CUDA_EMULATION_LOAD(__ldca)
CUDA_EMULATION_LOAD(__ldlu)
CUDA_EMULATION_LOAD(__ldcv)
#undef CUDA_EMULATION_LOAD

#define CUDA_EMULATION_STORE(name)                                           \
    template <typename T>                                                    \
    CUDA_EMULATION_INLINE void name(T *address, std::type_identity_t<T> v) { \
        *address = v;                                                        \
    }
CUDA_EMULATION_STORE(__stcs)
CUDA_EMULATION_STORE(__stcg)
CUDA_EMULATION_STORE(__stwb)
CUDA_EMULATION_STORE(__stwt)
#undef CUDA_EMULATION_STORE

inline int __float_as_int(float x) {
    return std::bit_cast<int>(x);
}
inline unsigned __float_as_uint(float x) {
    return std::bit_cast<unsigned>(x);
}
inline float __int_as_float(int x) {
    return std::bit_cast<float>(x);
}
inline float __uint_as_float(unsigned x) {
    return std::bit_cast<float>(x);
}
inline long long __double_as_longlong(double x) {
    return std::bit_cast<long long>(x);
}
inline double __longlong_as_double(long long x) {
    return std::bit_cast<double>(x);
}

inline int __popc(unsigned x) {
    return std::popcount(x);
}
inline int __popcll(unsigned long long x) {
    return std::popcount(x);
}
inline int __clz(int x) {
    return std::countl_zero(static_cast<unsigned>(x));
}
inline int __clzll(long long x) {
    return std::countl_zero(static_cast<unsigned long long>(x));
}
inline int __ffs(int x) {
    return __builtin_ffs(x);
}
inline int __ffsll(long long x) {
    return __builtin_ffsll(x);
}
inline unsigned __brev(unsigned x) {
    unsigned reversed = 0;
    for (int i = 0; i < 32; ++i) {
        reversed |= (x >> i & 1U) << (31 - i);
    }
    return reversed;
}
inline unsigned __umulhi(unsigned a, unsigned b) {
    return static_cast<unsigned>(uint64_t{a} * b >> 32);
}
inline int __mulhi(int a, int b) {
    return static_cast<int>(int64_t{a} * b >> 32);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<unsigned long long>(static_cast<Wide>(a) * b >> 64);
}

inline float rsqrtf(float x) {
    return 1.0F / std::sqrt(x);
}
inline double rsqrt(double x) {
    return 1.0 / std::sqrt(x);
}
inline float rsqrt(float x) {
    return rsqrtf(x);
}
inline float __frsqrt_rn(float x) {
    return static_cast<float>(1.0 / std::sqrt(static_cast<double>(x)));
}
inline float __expf(float x) {
    return std::exp(x);
}
inline float __exp10f(float x) {
    return std::pow(10.0F, x);
}
inline float __logf(float x) {
    return std::log(x);
}
inline float __log2f(float x) {
    return std::log2(x);
}
inline float __log10f(float x) {
    return std::log10(x);
}
inline float __powf(float x, float y) {
    return std::pow(x, y);
}
inline float __sinf(float x) {
    return std::sin(x);
}
inline float __cosf(float x) {
    return std::cos(x);
}
inline float __tanf(float x) {
    return std::tan(x);
}
inline void __sincosf(float x, float *s, float *c) {
    *s = std::sin(x), *c = std::cos(x);
}
inline float __fdividef(float a, float b) {
    return a / b;
}
inline float fdividef(float a, float b) {
    return a / b;
}
inline float __frcp_rn(float x) {
    return 1.0F / x;
}
inline float __fdiv_rn(float a, float b) {
    return a / b;
}
inline float __fsqrt_rn(float x) {
    return std::sqrt(x);
}
inline float __fadd_rn(float a, float b) {
    return a + b;
}
inline float __fsub_rn(float a, float b) {
    return a - b;
}
inline float __fmul_rn(float a, float b) {
    return a * b;
}
inline float __fmaf_rn(float a, float b, float c) {
    return std::fma(a, b, c);
}
inline double __dadd_rn(double a, double b) {
    return a + b;
}
inline double __dmul_rn(double a, double b) {
    return a * b;
}
inline double __fma_rn(double a, double b, double c) {
    return std::fma(a, b, c);
}
inline float __saturatef(float x) {
    return x > 0.0F ? (x < 1.0F ? x : 1.0F) : 0.0F;
}
inline float __double2float_rn(double x) {
    return static_cast<float>(x);
}
inline int __float2int_rn(float x) {
    return static_cast<int>(std::nearbyint(x));
}
inline int __float2int_rz(float x) {
    return static_cast<int>(x);
}
inline int __float2int_rd(float x) {
    return static_cast<int>(std::floor(x));
}
inline float __int2float_rn(int x) {
    return static_cast<float>(x);
}

template <typename A, typename B>
constexpr std::common_type_t<A, B> max(A a, B b) {
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<T>) {
        return std::fmax(static_cast<T>(a), static_cast<T>(b));
    } else {
        return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
    }
}
template <typename A, typename B>
constexpr std::common_type_t<A, B> min(A a, B b) {
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<T>) {
        return std::fmin(static_cast<T>(a), static_cast<T>(b));
    } else {
        return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
    }
}
