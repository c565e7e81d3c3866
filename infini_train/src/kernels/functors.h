#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "infini_train/src/kernels/float_math.h"

/// What the elementwise operators compute, for T = float, double, int32_t, int64_t or uint64_t. Branch-free, for all
/// devices.
namespace infini_train::functors {

/// Integers wrap: unsigned arithmetic does, signed overflow would be undefined.
template <typename T>
using Wrapping = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;

// ---- One operand --------------------------------------------------------------------------------------------------

struct Neg {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T x) const {
        if constexpr (std::is_integral_v<T>) {
            return static_cast<T>(Wrapping<T>{0} - static_cast<Wrapping<T>>(x));
        } else {
            return -x;
        }
    }
};

struct Abs {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T x) const {
        if constexpr (std::is_unsigned_v<T>) {
            return x;
        } else if constexpr (std::is_integral_v<T>) {
            return x < 0 ? Neg()(x) : x;
        } else {
            return math::Abs(x);
        }
    }
};

struct Square {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T x) const {
        return static_cast<T>(static_cast<Wrapping<T>>(x) * static_cast<Wrapping<T>>(x));
    }
};

/// A NaN stays.
struct Relu {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T x) const {
        if constexpr (std::is_unsigned_v<T>) {
            return x;
        } else {
            return x < T{0} ? T{0} : x;
        }
    }
};

struct Cube {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T x) const {
        return x * x * x;
    }
};

struct Reciprocal {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T x) const {
        return T{1} / x;
    }
};

struct Sqrt {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T x) const {
        return std::sqrt(x);
    }
};

struct Rsqrt {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T x) const {
        return T{1} / std::sqrt(x);
    }
};

struct Exp {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T x) const {
        return math::Exp(x);
    }
};

struct Log {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T x) const {
        return math::Log(x);
    }
};

/// Sin and Cos of a float: |x| <= math::kMaxReducedAngle.
struct Sin {
    INFINI_TRAIN_FUNCTOR float operator()(float x) const { return math::SinShifted(x, 0); }
    INFINI_TRAIN_FUNCTOR double operator()(double x) const { return std::sin(x); }
};

struct Cos {
    INFINI_TRAIN_FUNCTOR float operator()(float x) const { return math::SinShifted(x, 1); }
    INFINI_TRAIN_FUNCTOR double operator()(double x) const { return std::cos(x); }
};

struct Tanh {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T x) const {
        return math::Tanh(x);
    }
};

struct Sigmoid {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T x) const {
        return math::Sigmoid(x);
    }
};

struct Silu {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T x) const {
        return x * math::Gate(x);
    }
};

/// x P(X <= x) for a standard normal X.
struct Gelu {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T x) const {
        const T tail = math::NormalAt(x).tail;
        return x * (x < T{0} ? tail : T{1} - tail);
    }
};

/// P(X <= x) for a standard normal X.
struct NormalDistribution {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T x) const {
        const T tail = math::NormalAt(x).tail;
        return x < T{0} ? tail : T{1} - tail;
    }
};

/// 0.5 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) as a sigmoid of twice the argument.
template <typename T>
INFINI_TRAIN_FUNCTOR T GeluTanhGate(T x) {
    return math::Gate(T(1.5957691216057308) * x * (T{1} + T(0.044715) * x * x));
}

struct GeluTanh {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T x) const {
        return x * GeluTanhGate(x);
    }
};

// ---- Two operands -------------------------------------------------------------------------------------------------

struct Add {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T a, T b) const {
        return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
    }
};

struct Sub {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T a, T b) const {
        return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
    }
};

struct Mul {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T a, T b) const {
        return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
    }
};

struct Div {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T a, T b) const {
        return a / b;
    }
};

/// A NaN in either operand wins.
struct Maximum {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T a, T b) const {
        return ((a > b) | (a != a)) ? a : b;
    }
};

struct Minimum {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T a, T b) const {
        return ((a < b) | (a != a)) ? a : b;
    }
};

/// Integers take exponents >= 0 and wrap.
struct Pow {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T base, T exponent) const {
        if constexpr (std::is_integral_v<T>) {
            Wrapping<T> result = 1;
            auto square = static_cast<Wrapping<T>>(base);
            for (auto left = static_cast<Wrapping<T>>(exponent); left != 0; left >>= 1) {
                result *= (left & 1) != 0 ? square : 1;
                square *= square;
            }
            return static_cast<T>(result);
        } else {
            return std::pow(base, exponent);
        }
    }
};

// ---- Derivatives: of the output's gradient g and the input x or output y
// ---------------------------------------------

struct AbsBackward {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T g, T x) const {
        return g * (x > T{0} ? T{1} : (x < T{0} ? T{-1} : T{0}));
    }
};

struct SquareBackward {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T g, T x) const {
        return g * (x + x);
    }
};

struct ReluBackward {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T g, T y) const {
        return y <= T{0} ? T{0} : g;
    }
};

struct ReciprocalBackward {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T g, T y) const {
        return -(g * (y * y));
    }
};

struct SqrtBackward {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T g, T y) const {
        return g / (y + y);
    }
};

struct RsqrtBackward {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T g, T y) const {
        return T(-0.5) * g * (y * y * y);
    }
};

struct SinBackward {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T g, T x) const {
        return g * Cos()(x);
    }
};

struct CosBackward {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T g, T x) const {
        return -(g * Sin()(x));
    }
};

struct TanhBackward {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T g, T y) const {
        return g * (T{1} - y * y);
    }
};

struct SigmoidBackward {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T g, T y) const {
        return g * ((T{1} - y) * y);
    }
};

struct SiluBackward {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T g, T x) const {
        const T gate = math::Gate(x);
        return g * (gate * (T{1} + x * (T{1} - gate)));
    }
};

struct GeluBackward {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T g, T x) const {
        const auto normal = math::NormalAt(x);
        return g * ((x < T{0} ? normal.tail : T{1} - normal.tail) + x * normal.density);
    }
};

struct GeluTanhBackward {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T g, T x) const {
        const T gate = GeluTanhGate(x);
        // Beyond 20 the gate is constant: without the limit its slope would be 0 times infinity.
        const T limited = x > T{20} ? T{20} : (x < T{-20} ? T{-20} : x);
        const T slope = T(1.5957691216057308) * (T{1} + T(0.134145) * limited * limited);
        return g * (gate + limited * slope * (gate * (T{1} - gate)));
    }
};

// ---- Comparisons --------------------------------------------------------------------------------------------------

struct Equals {
    template <typename T>
    INFINI_TRAIN_FUNCTOR bool operator()(T a, T b) const {
        return a == b;
    }
};

struct NotEquals {
    template <typename T>
    INFINI_TRAIN_FUNCTOR bool operator()(T a, T b) const {
        return a != b;
    }
};

struct Lt {
    template <typename T>
    INFINI_TRAIN_FUNCTOR bool operator()(T a, T b) const {
        return a < b;
    }
};

struct Le {
    template <typename T>
    INFINI_TRAIN_FUNCTOR bool operator()(T a, T b) const {
        return a <= b;
    }
};

struct And {
    template <typename T>
    INFINI_TRAIN_FUNCTOR bool operator()(T a, T b) const {
        return (a != T{0}) & (b != T{0});
    }
};

struct Or {
    template <typename T>
    INFINI_TRAIN_FUNCTOR bool operator()(T a, T b) const {
        return (a != T{0}) | (b != T{0});
    }
};

// ---- More -----------------------------------------------------------------------------------------------------------

struct Clamp {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T x, T low, T high) const {
        const T raised = x < low ? low : x;
        return raised > high ? high : raised;
    }
};

struct ClampBackward {
    template <typename T>
    INFINI_TRAIN_FUNCTOR T operator()(T g, T x, T low, T high) const {
        return ((x >= low) & (x <= high)) ? g : T{0};
    }
};

}  // namespace infini_train::functors
