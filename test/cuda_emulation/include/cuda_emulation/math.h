// Arithmetic that device code has besides the standard library's, correctly rounded where the GPU's is only close.
#pragma once

namespace cuda_emulation {

template <typename To, typename From>
To BitCast(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof(to));
    return to;
}

}  // namespace cuda_emulation

inline int __float_as_int(float x) {
    return cuda_emulation::BitCast<int>(x);
}
inline unsigned __float_as_uint(float x) {
    return cuda_emulation::BitCast<unsigned>(x);
}
inline float __int_as_float(int x) {
    return cuda_emulation::BitCast<float>(x);
}
inline float __uint_as_float(unsigned x) {
    return cuda_emulation::BitCast<float>(x);
}
inline long long __double_as_longlong(double x) {
    return cuda_emulation::BitCast<long long>(x);
}
inline double __longlong_as_double(long long x) {
    return cuda_emulation::BitCast<double>(x);
}
inline int __popc(unsigned x) {
    return __builtin_popcount(x);
}
inline int __clz(int x) {
    return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x));
}
inline int __ffs(int x) {
    return __builtin_ffs(x);
}
inline unsigned __umulhi(unsigned a, unsigned b) {
    return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32);
}
inline float rsqrtf(float x) {
    return 1.0F / std::sqrt(x);
}
inline double rsqrt(double x) {
    return 1.0 / std::sqrt(x);
}
inline float __expf(float x) {
    return std::exp(x);
}
inline float __logf(float x) {
    return std::log(x);
}
inline float __fdividef(float a, float b) {
    return a / b;
}
inline float __fmaf_rn(float a, float b, float c) {
    return std::fma(a, b, c);
}
template <typename A, typename B>
constexpr std::common_type_t<A, B> max(A a, B b) {
    using T = std::common_type_t<A, B>;
    return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
}
template <typename A, typename B>
constexpr std::common_type_t<A, B> min(A a, B b) {
    using T = std::common_type_t<A, B>;
    return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
}
