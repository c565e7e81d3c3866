#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "infini_train/include/core/philox.h"

// Elementary functions of one number, without branches, so that a loop over them is vectorised on every instruction set
// and the same code serves a GPU. The float versions are within 2.5 units in the last place (sin and cos for |x| up to
// kMaxReducedAngle) and right for infinities, NaN and subnormal numbers, except that ExpNegative, Gate and NormalAt
// give 0 for what would be subnormal. The double versions are the standard library's.

/// Inlined always: a call in a loop would keep it from being vectorised.
#define INFINI_TRAIN_FUNCTOR [[gnu::always_inline]] INFINI_TRAIN_HOST_DEVICE inline

namespace infini_train::math {

/// Adding it rounds a float below 2^22 to an integer, which is then in the low bits.
inline constexpr float kRoundFloat = 0x1.8p23F;
inline constexpr double kRoundDouble = 0x1.8p52;

/// 2^n for n in [-126, 127]; n in two's complement.
INFINI_TRAIN_FUNCTOR float PowerOfTwo(uint32_t n) {
    return std::bit_cast<float>((n + 127U) << 23);
}

INFINI_TRAIN_FUNCTOR float Abs(float x) {
    return std::bit_cast<float>(std::bit_cast<uint32_t>(x) & 0x7fffffffU);
}

INFINI_TRAIN_FUNCTOR float CopySign(float magnitude, float sign) {
    return std::bit_cast<float>((std::bit_cast<uint32_t>(magnitude) & 0x7fffffffU) |
                                (std::bit_cast<uint32_t>(sign) & 0x80000000U));
}

/// exp(x) = 2^exponent * mantissa, the exponent in two's complement; |x| below 120.
struct SplitExp {
    float mantissa;
    uint32_t exponent;
};

INFINI_TRAIN_FUNCTOR SplitExp ExpParts(float x) {
    // x = n ln 2 + r with |r| <= ln 2 / 2; n times the first part of ln 2 is exact.
    const float rounded = x * 0x1.715476p0F + kRoundFloat;
    const float n = rounded - kRoundFloat;
    float r = x - n * 0x1.63p-1F;
    r = r + n * 0x1.bd0106p-13F;
    float p = 0x1.6a421ep-10F;
    p = p * r + 0x1.123b5cp-7F;
    p = p * r + 0x1.5558bep-5F;
    p = p * r + 0x1.555490p-3F;
    p = p * r + 0x1.fffffcp-2F;
    p = p * (r * r) + r;
    return {p + 1.0F, std::bit_cast<uint32_t>(rounded) - std::bit_cast<uint32_t>(kRoundFloat)};
}

INFINI_TRAIN_FUNCTOR float Exp(float x) {
    // Beyond these limits the result is 0 or infinity. A NaN fails both comparisons and stays.
    const float limited = x < -104.0F ? -104.0F : (x > 89.0F ? 89.0F : x);
    const SplitExp parts = ExpParts(limited);
    // 2^n in two factors, as it may be subnormal or above the largest float while the result is not.
    const auto half = static_cast<uint32_t>(static_cast<int32_t>(parts.exponent) >> 1);
    return parts.mantissa * PowerOfTwo(half) * PowerOfTwo(parts.exponent - half);
}

/// exp(x) for x <= 0 at less cost, with 0 for what would be subnormal.
INFINI_TRAIN_FUNCTOR float ExpNegative(float x) {
    const SplitExp parts = ExpParts(x < -87.0F ? -87.0F : x);
    const float value = parts.mantissa * PowerOfTwo(parts.exponent);
    return x < -87.0F ? 0.0F : value;
}

INFINI_TRAIN_FUNCTOR float Log(float x) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const bool subnormal = x < 0x1p-126F;
    const float normal = subnormal ? x * 0x1p23F : x;
    // x = 2^n (1 + f) with 1 + f between sqrt(1/2) and sqrt(2).
    const uint32_t bits = std::bit_cast<uint32_t>(normal);
    const int32_t exponent = static_cast<int32_t>(bits - 0x3f3504f3U) >> 23;
    const float f = std::bit_cast<float>(bits - (static_cast<uint32_t>(exponent) << 23)) - 1.0F;
    const float n = static_cast<float>(exponent) - (subnormal ? 23.0F : 0.0F);
    float p = 0x1.1484e8p-4F;
    p = p * f - 0x1.de1004p-4F;
    p = p * f + 0x1.e6c03ep-4F;
    p = p * f - 0x1.fc26acp-4F;
    p = p * f + 0x1.233b78p-3F;
    p = p * f - 0x1.555c4ep-3F;
    p = p * f + 0x1.99a478p-3F;
    p = p * f - 0x1.000006p-2F;
    p = p * f + 0x1.555548p-2F;
    const float square = f * f;
    float small = p * (f * square);
    small = small - n * 0x1.bd0106p-13F;
    small = small - 0.5F * square;
    const float log = (f + small) + n * 0x1.63p-1F;
    const float limited = x < kInfinity ? log : kInfinity;
    return x > 0.0F ? limited : (x == 0.0F ? -kInfinity : std::numeric_limits<float>::quiet_NaN());
}

INFINI_TRAIN_FUNCTOR float Sigmoid(float x) {
    // Only the exponential of a negative number, so that nothing overflows and the left tail keeps its digits.
    const float e = Exp(-Abs(x));
    return (x < 0.0F ? e : 1.0F) / (1.0F + e);
}

/// Sigmoid as a factor of a number x that isn't large: 0 where it is below the smallest normal float.
INFINI_TRAIN_FUNCTOR float Gate(float x) {
    const float e = ExpNegative(-Abs(x));
    return (x < 0.0F ? e : 1.0F) / (1.0F + e);
}

INFINI_TRAIN_FUNCTOR float Tanh(float x) {
    const float square = x * x;
    float p = -0x1.7574f8p-8F;
    p = p * square + 0x1.520c26p-6F;
    p = p * square - 0x1.b837e0p-5F;
    p = p * square + 0x1.110700p-3F;
    p = p * square - 0x1.555532p-2F;
    const float small = x + x * (square * p);
    const float magnitude = Abs(x);
    const float e = ExpNegative(-2.0F * magnitude);
    const float large = (1.0F - e) / (1.0F + e);
    return magnitude < 0.625F ? small : CopySign(large, x);
}

/// Up to here, sin and cos reduce their argument by a multiple of pi / 2; beyond, use the standard library's.
inline constexpr float kMaxReducedAngle = 0x1p20F;

/// sin(x + quarter_turns * pi / 2).
INFINI_TRAIN_FUNCTOR float SinShifted(float x, uint32_t quarter_turns) {
    // In double: near a multiple of pi almost all digits of a float cancel.
    const double wide = x;
    const double rounded = wide * 0x1.45f306dc9c883p-1 + kRoundDouble;
    const double n = rounded - kRoundDouble;
    double rest = wide - n * 0x1.921fb54p0;
    rest = rest - n * 0x1.10b4611a62633p-30;
    const auto r = static_cast<float>(rest);
    const uint32_t quadrant = static_cast<uint32_t>(std::bit_cast<uint64_t>(rounded)) + quarter_turns;
    const float square = r * r;
    float sin = -0x1.991bf6p-13F;
    sin = sin * square + 0x1.1106c6p-7F;
    sin = sin * square - 0x1.555544p-3F;
    sin = r + r * (square * sin);
    float cos = 0x1.99e71cp-16F;
    cos = cos * square - 0x1.6c0c26p-10F;
    cos = cos * square + 0x1.55554ap-5F;
    cos = (1.0F - 0.5F * square) + (square * square) * cos;
    const float value = (quadrant & 1U) != 0 ? cos : sin;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(value) ^ ((quadrant & 2U) << 30));
}

/// The standard normal distribution: `tail` is the probability beyond |x|, `density` that at x.
template <typename T>
struct Normal {
    T tail;
    T density;
};

INFINI_TRAIN_FUNCTOR Normal<float> NormalAt(float x) {
    const float magnitude = Abs(x);
    const float e = ExpNegative(-0.5F * x * x);
    // tail / e, a smooth function: a polynomial in u, which is 1 at 0 and goes to 0.
    const float u = 1.0F / (1.0F + 0.35F * magnitude);
    float p = -0x1.ddbb70p-6F;
    p = p * u + 0x1.26fb3cp-3F;
    p = p * u - 0x1.05fc5cp-2F;
    p = p * u + 0x1.464d7ap-3F;
    p = p * u - 0x1.7c66d2p-6F;
    p = p * u + 0x1.b05a4ep-4F;
    p = p * u + 0x1.eac91ap-4F;
    p = p * u + 0x1.1e70cep-3F;
    p = p * u + 0x1.1df1c6p-3F;
    return {e * (p * u), 0.39894228F * e};
}

INFINI_TRAIN_FUNCTOR Normal<double> NormalAt(double x) {
    return {0.5 * std::erfc(std::abs(x) * 0.70710678118654752), 0.39894228040143268 * std::exp(-0.5 * x * x)};
}

INFINI_TRAIN_FUNCTOR double Abs(double x) {
    return std::abs(x);
}
INFINI_TRAIN_FUNCTOR double Exp(double x) {
    return std::exp(x);
}
INFINI_TRAIN_FUNCTOR double Log(double x) {
    return std::log(x);
}
INFINI_TRAIN_FUNCTOR double Tanh(double x) {
    return std::tanh(x);
}
INFINI_TRAIN_FUNCTOR double Sigmoid(double x) {
    const double e = std::exp(-std::abs(x));
    return (x < 0.0 ? e : 1.0) / (1.0 + e);
}
INFINI_TRAIN_FUNCTOR double Gate(double x) {
    return Sigmoid(x);
}

}  // namespace infini_train::math
