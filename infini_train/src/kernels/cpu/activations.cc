#include "infini_train/src/kernels/cpu/elementwise.h"
#include "infini_train/src/kernels/cpu/simd_targets.h"
#include "infini_train/src/kernels/functors.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "infini_train/src/kernels/cpu/activations.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "infini_train/src/kernels/cpu/elementwise_loops.h"

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

using kernels::BinaryOp;
using kernels::UnaryOp;

template <typename F, typename T>
constexpr ElementwiseOp kActivation = MakeUnary<F, T>(kCostlyGrain);

template <typename F, typename T, int64_t grain>
constexpr ElementwiseOp kDerivative = MakePlainBinary<F, T>(grain);

template <typename T>
const ElementwiseOp *FindActivationFor(UnaryOp op) {
    switch (op) {
        case UnaryOp::kTanh:
            return &kActivation<functors::Tanh, T>;
        case UnaryOp::kSigmoid:
            return &kActivation<functors::Sigmoid, T>;
        case UnaryOp::kSilu:
            return &kActivation<functors::Silu, T>;
        case UnaryOp::kGelu:
            return &kActivation<functors::Gelu, T>;
        case UnaryOp::kGeluTanh:
            return &kActivation<functors::GeluTanh, T>;
        case UnaryOp::kNormalDistribution:
            return &kActivation<functors::NormalDistribution, T>;
        default:
            return nullptr;
    }
}

// The derivative of a float's sine at an angle that the functor can't reduce.
template <typename F>
void AngleBackwardLoop(const void *const *in, void *out, int64_t n, const void *params) {
    constexpr int64_t kBlock = 64;
    const auto *g = static_cast<const float *>(in[0]);
    const auto *x = static_cast<const float *>(in[1]);
    auto *y = static_cast<float *>(out);
    for (int64_t first = 0; first < n; first += kBlock) {
        const int64_t count = n - first < kBlock ? n - first : kBlock;
        int large = 0;
        for (int64_t i = first; i < first + count; ++i) {
            large |= math::Abs(x[i]) > math::kMaxReducedAngle ? 1 : 0;
        }
        if (large == 0) {
            const void *const block[] = {g + first, x + first};
            BinaryLoop<F, float>(block, y + first, count, params);
            continue;
        }
        for (int64_t i = first; i < first + count; ++i) {
            y[i] = g[i] * (std::is_same_v<F, functors::SinBackward> ? std::cos(x[i]) : -std::sin(x[i]));
        }
    }
}

template <typename F>
constexpr ElementwiseOp kAngleBackward = {
    {&AngleBackwardLoop<F>}, 2, {DataType::kFLOAT32, DataType::kFLOAT32}, DataType::kFLOAT32, kCostlyGrain};

template <typename T>
const ElementwiseOp *FindDerivativeFor(BinaryOp op) {
    constexpr bool kIsFloat = std::is_same_v<T, float>;
    switch (op) {
        case BinaryOp::kAbsBackward:
            return &kDerivative<functors::AbsBackward, T, kCheapGrain>;
        case BinaryOp::kSquareBackward:
            return &kDerivative<functors::SquareBackward, T, kCheapGrain>;
        case BinaryOp::kReluBackward:
            return &kDerivative<functors::ReluBackward, T, kCheapGrain>;
        case BinaryOp::kReciprocalBackward:
            return &kDerivative<functors::ReciprocalBackward, T, kCheapGrain>;
        case BinaryOp::kSqrtBackward:
            return &kDerivative<functors::SqrtBackward, T, kCheapGrain>;
        case BinaryOp::kRsqrtBackward:
            return &kDerivative<functors::RsqrtBackward, T, kCheapGrain>;
        case BinaryOp::kSinBackward:
            return kIsFloat ? &kAngleBackward<functors::SinBackward>
                            : &kDerivative<functors::SinBackward, double, kCostlyGrain>;
        case BinaryOp::kCosBackward:
            return kIsFloat ? &kAngleBackward<functors::CosBackward>
                            : &kDerivative<functors::CosBackward, double, kCostlyGrain>;
        case BinaryOp::kTanhBackward:
            return &kDerivative<functors::TanhBackward, T, kCheapGrain>;
        case BinaryOp::kSigmoidBackward:
            return &kDerivative<functors::SigmoidBackward, T, kCheapGrain>;
        case BinaryOp::kSiluBackward:
            return &kDerivative<functors::SiluBackward, T, kCostlyGrain>;
        case BinaryOp::kGeluBackward:
            return &kDerivative<functors::GeluBackward, T, kCostlyGrain>;
        case BinaryOp::kGeluTanhBackward:
            return &kDerivative<functors::GeluTanhBackward, T, kCostlyGrain>;
        default:
            return nullptr;
    }
}

const ElementwiseOp *FindActivationOp(UnaryOp op, DataType compute) {
    return compute == DataType::kFLOAT64 ? FindActivationFor<double>(op) : FindActivationFor<float>(op);
}

const ElementwiseOp *FindDerivativeOp(BinaryOp op, DataType compute) {
    return compute == DataType::kFLOAT64 ? FindDerivativeFor<double>(op) : FindDerivativeFor<float>(op);
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace infini_train::cpu {

HWY_EXPORT(FindActivationOp);
HWY_EXPORT(FindDerivativeOp);

const ElementwiseOp *FindActivation(kernels::UnaryOp op, DataType compute) {
    return HWY_DYNAMIC_DISPATCH(FindActivationOp)(op, compute);
}

const ElementwiseOp *FindDerivative(kernels::BinaryOp op, DataType compute) {
    return HWY_DYNAMIC_DISPATCH(FindDerivativeOp)(op, compute);
}

}  // namespace infini_train::cpu
#endif
