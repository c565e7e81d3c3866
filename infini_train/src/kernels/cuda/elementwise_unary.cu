#include <type_traits>

#include "infini_train/src/kernels/cuda/elementwise.cuh"
#include "infini_train/src/kernels/cuda/elementwise_families.h"
#include "infini_train/src/kernels/functors.h"

namespace infini_train::cuda {
namespace {

using kernels::UnaryOp;

// A few instructions each; the others need more registers, which would cost these some of their speed.
struct CheapUnary {
    UnaryOp op;

    template <typename C, int kLength>
    __device__ __forceinline__ void operator()(const C (&in)[1][kLength], C (&out)[kLength]) const {
        switch (op) {
            case UnaryOp::kNeg:
                return ForEach(functors::Neg(), in, out);
            case UnaryOp::kAbs:
                return ForEach(functors::Abs(), in, out);
            case UnaryOp::kSquare:
                return ForEach(functors::Square(), in, out);
            case UnaryOp::kRelu:
                return ForEach(functors::Relu(), in, out);
            default:
                break;
        }
        if constexpr (std::is_floating_point_v<C>) {
            switch (op) {
                case UnaryOp::kCube:
                    return ForEach(functors::Cube(), in, out);
                case UnaryOp::kReciprocal:
                    return ForEach(functors::Reciprocal(), in, out);
                case UnaryOp::kSqrt:
                    return ForEach(functors::Sqrt(), in, out);
                default:
                    return ForEach(functors::Rsqrt(), in, out);
            }
        }
    }
};

// Floats beyond the range of the fast reduction are rare.
struct AnySin {
    __device__ __forceinline__ float operator()(float x) const {
        return math::Abs(x) > math::kMaxReducedAngle ? std::sin(x) : functors::Sin()(x);
    }
    __device__ __forceinline__ double operator()(double x) const { return std::sin(x); }
};
struct AnyCos {
    __device__ __forceinline__ float operator()(float x) const {
        return math::Abs(x) > math::kMaxReducedAngle ? std::cos(x) : functors::Cos()(x);
    }
    __device__ __forceinline__ double operator()(double x) const { return std::cos(x); }
};

struct CostlyUnary {
    UnaryOp op;

    template <typename C, int kLength>
    __device__ __forceinline__ void operator()(const C (&in)[1][kLength], C (&out)[kLength]) const {
        switch (op) {
            case UnaryOp::kExp:
                return ForEach(functors::Exp(), in, out);
            case UnaryOp::kLog:
                return ForEach(functors::Log(), in, out);
            case UnaryOp::kTanh:
                return ForEach(functors::Tanh(), in, out);
            case UnaryOp::kSigmoid:
                return ForEach(functors::Sigmoid(), in, out);
            case UnaryOp::kSilu:
                return ForEach(functors::Silu(), in, out);
            case UnaryOp::kGelu:
                return ForEach(functors::Gelu(), in, out);
            case UnaryOp::kGeluTanh:
                return ForEach(functors::GeluTanh(), in, out);
            default:
                return ForEach(functors::NormalDistribution(), in, out);
        }
    }
};

struct AngleUnary {
    UnaryOp op;

    template <typename C, int kLength>
    __device__ __forceinline__ void operator()(const C (&in)[1][kLength], C (&out)[kLength]) const {
        if (op == UnaryOp::kSin) {
            ForEach(AnySin(), in, out);
        } else {
            ForEach(AnyCos(), in, out);
        }
    }
};

}  // namespace

void UnaryKernel(TensorRef output, ConstTensorRef input, UnaryOp op) {
    VisitWide(output.dtype, [&]<typename C>(std::type_identity<C>) {
        const ElementwiseInput<C> inputs[] = {input};
        if constexpr (std::is_floating_point_v<C>) {
            if (op == UnaryOp::kSin || op == UnaryOp::kCos) {
                return RunElementwise("Unary", output, inputs, AngleUnary{op});
            }
            if (op >= UnaryOp::kExp) {
                return RunElementwise("Unary", output, inputs, CostlyUnary{op});
            }
        }
        RunElementwise("Unary", output, inputs, CheapUnary{op});
    });
}

}  // namespace infini_train::cuda
