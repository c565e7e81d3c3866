#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "infini_train/include/common/export.h"
#include "infini_train/include/datatype.h"

namespace infini_train {

/// One number of any kind, converted from any arithmetic type. Integers keep all 64 bits.
class INFINI_TRAIN_EXPORT Scalar {
public:
    enum class Kind : uint8_t { kBool, kInt, kUInt, kDouble };

    Scalar() : kind_(Kind::kInt), int_(0) {}
    template <typename T>
    requires std::is_arithmetic_v<T> Scalar(T value) {  // NOLINT(google-explicit-constructor): a number is a scalar
        if constexpr (std::is_same_v<T, bool>) {
            kind_ = Kind::kBool;
            int_ = value ? 1 : 0;
        } else if constexpr (std::is_floating_point_v<T>) {
            kind_ = Kind::kDouble;
            double_ = static_cast<double>(value);
        } else if constexpr (std::is_unsigned_v<T>) {
            kind_ = Kind::kUInt;
            uint_ = value;
        } else {
            kind_ = Kind::kInt;
            int_ = value;
        }
    }
    Scalar(BFloat16 value) : Scalar(static_cast<float>(value)) {}  // NOLINT(google-explicit-constructor)
    Scalar(Float16 value) : Scalar(static_cast<float>(value)) {}   // NOLINT(google-explicit-constructor)

    Kind kind() const { return kind_; }
    bool IsFloatingPoint() const { return kind_ == Kind::kDouble; }

    /// The value as T, converted as static_cast does (a float to an integer truncates; out of range saturates and NaN
    /// gives 0, where C++ leaves it undefined).
    template <typename T>
    T To() const {
        if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>) {
            return T(To<float>());
        } else {
            switch (kind_) {
                case Kind::kDouble:
                    return FromDouble<T>(double_);
                case Kind::kUInt:
                    return static_cast<T>(uint_);
                default:
                    return static_cast<T>(int_);
            }
        }
    }

    /// The data type that the value takes part in promotion with: bool, int64, uint64 or float64.
    DataType Dtype() const;

    /// `2.5`, `-3`, `true`
    std::string ToString() const;

private:
    template <typename T>
    static T FromDouble(double value) {
        if constexpr (std::is_same_v<T, bool>) {
            return value != 0;
        } else if constexpr (std::is_integral_v<T>) {
            // Compared as double, the upper limit of a 64-bit type rounds up to a power of two, hence >=.
            constexpr T kMax = std::numeric_limits<T>::max();
            constexpr T kMin = std::numeric_limits<T>::min();
            if (value != value) {
                return T{0};
            }
            return value >= static_cast<double>(kMax)   ? kMax
                   : value <= static_cast<double>(kMin) ? kMin
                                                        : static_cast<T>(value);
        } else {
            return static_cast<T>(value);
        }
    }

    Kind kind_;
    union {
        int64_t int_;
        uint64_t uint_;
        double double_;
    };
};

}  // namespace infini_train
