// Two operands; the other files of the family are registered here, too.

#include <type_traits>

#include "infini_train/src/kernels/cuda/elementwise.cuh"
#include "infini_train/src/kernels/cuda/elementwise_families.h"
#include "infini_train/src/kernels/functors.h"
#include "infini_train/src/kernels/registry.h"

namespace infini_train::cuda {
namespace {

using kernels::BinaryOp;

struct CheapBinary {
    BinaryOp op;

    template <typename C, int kLength>
    __device__ __forceinline__ void operator()(const C (&in)[2][kLength], C (&out)[kLength]) const {
        switch (op) {
            case BinaryOp::kAdd:
                return ForEach(functors::Add(), in, out);
            case BinaryOp::kSub:
                return ForEach(functors::Sub(), in, out);
            case BinaryOp::kMul:
                return ForEach(functors::Mul(), in, out);
            case BinaryOp::kMaximum:
                return ForEach(functors::Maximum(), in, out);
            case BinaryOp::kMinimum:
                return ForEach(functors::Minimum(), in, out);
            default:
                break;
        }
        if constexpr (std::is_floating_point_v<C>) {
            switch (op) {
                case BinaryOp::kDiv:
                    return ForEach(functors::Div(), in, out);
                case BinaryOp::kAbsBackward:
                    return ForEach(functors::AbsBackward(), in, out);
                case BinaryOp::kSquareBackward:
                    return ForEach(functors::SquareBackward(), in, out);
                case BinaryOp::kReluBackward:
                    return ForEach(functors::ReluBackward(), in, out);
                case BinaryOp::kReciprocalBackward:
                    return ForEach(functors::ReciprocalBackward(), in, out);
                case BinaryOp::kSqrtBackward:
                    return ForEach(functors::SqrtBackward(), in, out);
                case BinaryOp::kRsqrtBackward:
                    return ForEach(functors::RsqrtBackward(), in, out);
                case BinaryOp::kTanhBackward:
                    return ForEach(functors::TanhBackward(), in, out);
                default:
                    return ForEach(functors::SigmoidBackward(), in, out);
            }
        }
    }
};

// Cos()(x) and Sin()(x) of any angle.
struct AnySinBackward {
    template <typename T>
    __device__ __forceinline__ T operator()(T g, T x) const {
        return g * (std::abs(x) > T{math::kMaxReducedAngle} ? std::cos(x) : functors::Cos()(x));
    }
};
struct AnyCosBackward {
    template <typename T>
    __device__ __forceinline__ T operator()(T g, T x) const {
        return -(g * (std::abs(x) > T{math::kMaxReducedAngle} ? std::sin(x) : functors::Sin()(x)));
    }
};

struct CostlyBinary {
    BinaryOp op;

    template <typename C, int kLength>
    __device__ __forceinline__ void operator()(const C (&in)[2][kLength], C (&out)[kLength]) const {
        switch (op) {
            case BinaryOp::kSiluBackward:
                return ForEach(functors::SiluBackward(), in, out);
            case BinaryOp::kGeluBackward:
                return ForEach(functors::GeluBackward(), in, out);
            case BinaryOp::kGeluTanhBackward:
                return ForEach(functors::GeluTanhBackward(), in, out);
            case BinaryOp::kSinBackward:
                return ForEach(AnySinBackward(), in, out);
            default:
                return ForEach(AnyCosBackward(), in, out);
        }
    }
};

struct PowBinary {
    template <typename C, int kLength>
    __device__ __forceinline__ void operator()(const C (&in)[2][kLength], C (&out)[kLength]) const {
        ForEach(functors::Pow(), in, out);
    }
};

bool IsCostly(BinaryOp op) {
    switch (op) {
        case BinaryOp::kSinBackward:
        case BinaryOp::kCosBackward:
        case BinaryOp::kSiluBackward:
        case BinaryOp::kGeluBackward:
        case BinaryOp::kGeluTanhBackward:
            return true;
        default:
            return false;
    }
}

template <typename A, typename B>
void RunBinary(const char *name, const TensorRef &output, const A &a, const B &b, BinaryOp op) {
    VisitWide(output.dtype, [&]<typename C>(std::type_identity<C>) {
        const ElementwiseInput<C> inputs[] = {a, b};
        if (op == BinaryOp::kPow) {
            return RunElementwise(name, output, inputs, PowBinary());
        }
        if constexpr (std::is_floating_point_v<C>) {
            if (IsCostly(op)) {
                return RunElementwise(name, output, inputs, CostlyBinary{op});
            }
        }
        RunElementwise(name, output, inputs, CheapBinary{op});
    });
}

void BinaryKernel(TensorRef output, ConstTensorRef a, ConstTensorRef b, BinaryOp op) {
    RunBinary("Binary", output, a, b, op);
}

void BinaryScalarKernel(TensorRef output, ConstTensorRef a, Scalar b, BinaryOp op) {
    RunBinary("BinaryScalar", output, a, b, op);
}

void ScalarBinaryKernel(TensorRef output, Scalar a, ConstTensorRef b, BinaryOp op) {
    RunBinary("ScalarBinary", output, a, b, op);
}

}  // namespace
}  // namespace infini_train::cuda

namespace infini_train::kernels {

void RegisterElementwiseCuda() {
    RegisterKernel<Unary>(DeviceType::kCUDA, &cuda::UnaryKernel);
    RegisterKernel<Binary>(DeviceType::kCUDA, &cuda::BinaryKernel);
    RegisterKernel<BinaryScalar>(DeviceType::kCUDA, &cuda::BinaryScalarKernel);
    RegisterKernel<ScalarBinary>(DeviceType::kCUDA, &cuda::ScalarBinaryKernel);
    RegisterKernel<Compare>(DeviceType::kCUDA, &cuda::CompareKernel);
    RegisterKernel<CompareScalar>(DeviceType::kCUDA, &cuda::CompareScalarKernel);
    RegisterKernel<ScalarCompare>(DeviceType::kCUDA, &cuda::ScalarCompareKernel);
    RegisterKernel<Clamp>(DeviceType::kCUDA, &cuda::ClampKernel);
    RegisterKernel<ClampBackward>(DeviceType::kCUDA, &cuda::ClampBackwardKernel);
    RegisterKernel<Where>(DeviceType::kCUDA, &cuda::WhereKernel);
}

}  // namespace infini_train::kernels
