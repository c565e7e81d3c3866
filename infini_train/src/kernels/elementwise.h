#pragma once

#include <cstdint>

#include "infini_train/include/core/dispatcher.h"
#include "infini_train/include/scalar.h"

#include "infini_train/src/kernels/tensor_ref.h"

namespace infini_train::kernels {

// What the operators compute is in functors.h. Operands of an elementwise kernel have any strides and broadcast to the
// output's dims (aligned at the last one), which nobody has to expand first. They are converted to the type that the
// kernel computes in: float64 for a float64 output, float32 for the other floats, otherwise 64-bit integers, which
// wrap. An output may be the memory of an operand with the same strides, but must not overlap one otherwise.

/// From kCube on: floating-point outputs only.
enum class UnaryOp : int8_t {
    kNeg,
    kAbs,
    kSquare,
    kRelu,
    kCube,
    kReciprocal,
    kSqrt,
    kRsqrt,
    kExp,
    kLog,
    kSin,
    kCos,
    kTanh,
    kSigmoid,
    kSilu,
    kGelu,
    kGeluTanh,
    kNormalDistribution,
};

/// Div and all from there on: floating-point outputs only. The ...Backward take the output's gradient and then what
/// the formula is in: the input x or the output y.
enum class BinaryOp : int8_t {
    kAdd,
    kSub,
    kMul,
    kMaximum,
    kMinimum,
    kPow,
    kDiv,
    kAbsBackward,         // x
    kSquareBackward,      // x
    kReluBackward,        // y
    kReciprocalBackward,  // y
    kSqrtBackward,        // y
    kRsqrtBackward,       // y
    kSinBackward,         // x
    kCosBackward,         // x
    kTanhBackward,        // y
    kSigmoidBackward,     // y
    kSiluBackward,        // x
    kGeluBackward,        // x
    kGeluTanhBackward,    // x
};

/// kLt and kLe serve for > and >= with their operands exchanged.
enum class CompareOp : int8_t { kEquals, kNotEquals, kLt, kLe, kAnd, kOr };

struct Unary : KernelTag<void(TensorRef output, ConstTensorRef input, UnaryOp op)> {
    static constexpr const char *kName = "Unary";
};

struct Binary : KernelTag<void(TensorRef output, ConstTensorRef a, ConstTensorRef b, BinaryOp op)> {
    static constexpr const char *kName = "Binary";
};
/// op(a, b) of a tensor and a number.
struct BinaryScalar : KernelTag<void(TensorRef output, ConstTensorRef a, Scalar b, BinaryOp op)> {
    static constexpr const char *kName = "BinaryScalar";
};
/// op(a, b) of a number and a tensor.
struct ScalarBinary : KernelTag<void(TensorRef output, Scalar a, ConstTensorRef b, BinaryOp op)> {
    static constexpr const char *kName = "ScalarBinary";
};

/// A bool output; the operands are compared as `common`.
struct Compare : KernelTag<void(TensorRef output, ConstTensorRef a, ConstTensorRef b, CompareOp op, DataType common)> {
    static constexpr const char *kName = "Compare";
};
struct CompareScalar : KernelTag<void(TensorRef output, ConstTensorRef a, Scalar b, CompareOp op, DataType common)> {
    static constexpr const char *kName = "CompareScalar";
};
struct ScalarCompare : KernelTag<void(TensorRef output, Scalar a, ConstTensorRef b, CompareOp op, DataType common)> {
    static constexpr const char *kName = "ScalarCompare";
};

/// min(max(input, low), high); a NaN stays.
struct Clamp : KernelTag<void(TensorRef output, ConstTensorRef input, Scalar low, Scalar high)> {
    static constexpr const char *kName = "Clamp";
};
/// grad_output where low <= input <= high, else 0; floating-point types.
struct ClampBackward
    : KernelTag<void(TensorRef grad_input, ConstTensorRef grad_output, ConstTensorRef input, Scalar low, Scalar high)> {
    static constexpr const char *kName = "ClampBackward";
};

/// output = condition ? a : b; the condition is bool.
struct Where : KernelTag<void(TensorRef output, ConstTensorRef condition, ConstTensorRef a, ConstTensorRef b)> {
    static constexpr const char *kName = "Where";
};

}  // namespace infini_train::kernels
