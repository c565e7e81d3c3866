#include "infini_train/src/kernels/cpu/elementwise.h"
#include "infini_train/src/kernels/cpu/simd_targets.h"
#include "infini_train/src/kernels/functors.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "infini_train/src/kernels/cpu/elementwise_unary.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "infini_train/src/kernels/cpu/elementwise_loops.h"

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

using kernels::UnaryOp;

// Floats beyond the range of the fast reduction are rare: a block that has one takes the standard library.
template <typename F>
void AngleLoop(const void *const *in, void *out, int64_t n, const void *params) {
    constexpr int64_t kBlock = 64;
    const auto *x = static_cast<const float *>(in[0]);
    auto *y = static_cast<float *>(out);
    for (int64_t first = 0; first < n; first += kBlock) {
        const int64_t count = n - first < kBlock ? n - first : kBlock;
        int large = 0;
        for (int64_t i = 0; i < count; ++i) {
            large |= math::Abs(x[first + i]) > math::kMaxReducedAngle ? 1 : 0;
        }
        if (large == 0) {
            const void *const block[] = {x + first};
            UnaryLoop<F, float>(block, y + first, count, params);
            continue;
        }
        for (int64_t i = first; i < first + count; ++i) {
            y[i] = std::is_same_v<F, functors::Sin> ? std::sin(x[i]) : std::cos(x[i]);
        }
    }
}

template <typename F>
constexpr ElementwiseOp kAngle = {{&AngleLoop<F>}, 1, {DataType::kFLOAT32}, DataType::kFLOAT32, kCostlyGrain};

template <typename F, typename T, int64_t grain>
constexpr ElementwiseOp kUnary = MakeUnary<F, T>(grain);

template <typename T>
const ElementwiseOp *FindFor(UnaryOp op) {
    switch (op) {
        case UnaryOp::kNeg:
            return &kUnary<functors::Neg, T, kCheapGrain>;
        case UnaryOp::kAbs:
            return &kUnary<functors::Abs, T, kCheapGrain>;
        case UnaryOp::kSquare:
            return &kUnary<functors::Square, T, kCheapGrain>;
        case UnaryOp::kRelu:
            return &kUnary<functors::Relu, T, kCheapGrain>;
        default:
            break;
    }
    if constexpr (std::is_floating_point_v<T>) {
        switch (op) {
            case UnaryOp::kCube:
                return &kUnary<functors::Cube, T, kCheapGrain>;
            case UnaryOp::kReciprocal:
                return &kUnary<functors::Reciprocal, T, kCheapGrain>;
            case UnaryOp::kSqrt:
                return &kUnary<functors::Sqrt, T, kCheapGrain>;
            case UnaryOp::kRsqrt:
                return &kUnary<functors::Rsqrt, T, kCheapGrain>;
            case UnaryOp::kExp:
                return &kUnary<functors::Exp, T, kCostlyGrain>;
            case UnaryOp::kLog:
                return &kUnary<functors::Log, T, kCostlyGrain>;
            case UnaryOp::kSin:
                return std::is_same_v<T, float> ? &kAngle<functors::Sin> : &kUnary<functors::Sin, double, kCostlyGrain>;
            case UnaryOp::kCos:
                return std::is_same_v<T, float> ? &kAngle<functors::Cos> : &kUnary<functors::Cos, double, kCostlyGrain>;
            default:
                break;
        }
    }
    return nullptr;
}

const ElementwiseOp *FindUnaryOp(UnaryOp op, DataType compute) {
    switch (compute) {
        case DataType::kFLOAT32:
            return FindFor<float>(op);
        case DataType::kFLOAT64:
            return FindFor<double>(op);
        case DataType::kINT32:
            return FindFor<int32_t>(op);
        case DataType::kUINT64:
            return FindFor<uint64_t>(op);
        default:
            return FindFor<int64_t>(op);
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace infini_train::cpu {

HWY_EXPORT(FindUnaryOp);

const ElementwiseOp *FindUnary(kernels::UnaryOp op, DataType compute) {
    return HWY_DYNAMIC_DISPATCH(FindUnaryOp)(op, compute);
}

}  // namespace infini_train::cpu
#endif
