#include "infini_train/src/kernels/cpu/elementwise.h"
#include "infini_train/src/kernels/cpu/simd_targets.h"
#include "infini_train/src/kernels/functors.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "infini_train/src/kernels/cpu/elementwise_binary.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "infini_train/src/kernels/cpu/elementwise_loops.h"

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

using kernels::BinaryOp;
using kernels::CompareOp;

template <typename F, typename T, int64_t grain = kCheapGrain>
constexpr ElementwiseOp kBinary = MakeBinary<F, T>(grain);

template <typename T>
const ElementwiseOp *FindBinaryFor(BinaryOp op) {
    switch (op) {
        case BinaryOp::kAdd:
            return &kBinary<functors::Add, T>;
        case BinaryOp::kSub:
            return &kBinary<functors::Sub, T>;
        case BinaryOp::kMul:
            return &kBinary<functors::Mul, T>;
        case BinaryOp::kMaximum:
            return &kBinary<functors::Maximum, T>;
        case BinaryOp::kMinimum:
            return &kBinary<functors::Minimum, T>;
        case BinaryOp::kPow:
            return &kBinary<functors::Pow, T, kCostlyGrain>;
        default:
            break;
    }
    if constexpr (std::is_floating_point_v<T>) {
        return op == BinaryOp::kDiv ? &kBinary<functors::Div, T> : nullptr;
    }
    return nullptr;
}

template <typename T>
const ElementwiseOp *FindCompareFor(CompareOp op) {
    switch (op) {
        case CompareOp::kEquals:
            return &kBinary<functors::Equals, T>;
        case CompareOp::kNotEquals:
            return &kBinary<functors::NotEquals, T>;
        case CompareOp::kLt:
            return &kBinary<functors::Lt, T>;
        case CompareOp::kLe:
            return &kBinary<functors::Le, T>;
        case CompareOp::kAnd:
            return &kBinary<functors::And, T>;
        case CompareOp::kOr:
            return &kBinary<functors::Or, T>;
    }
    return nullptr;
}

const ElementwiseOp *FindBinaryOp(BinaryOp op, DataType compute) {
    switch (compute) {
        case DataType::kFLOAT32:
            return FindBinaryFor<float>(op);
        case DataType::kFLOAT64:
            return FindBinaryFor<double>(op);
        case DataType::kINT32:
            return FindBinaryFor<int32_t>(op);
        case DataType::kUINT64:
            return FindBinaryFor<uint64_t>(op);
        default:
            return FindBinaryFor<int64_t>(op);
    }
}

const ElementwiseOp *FindCompareOp(CompareOp op, DataType compute) {
    switch (compute) {
        case DataType::kFLOAT32:
            return FindCompareFor<float>(op);
        case DataType::kFLOAT64:
            return FindCompareFor<double>(op);
        case DataType::kUINT64:
            return FindCompareFor<uint64_t>(op);
        default:
            return FindCompareFor<int64_t>(op);
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace infini_train::cpu {

HWY_EXPORT(FindBinaryOp);
HWY_EXPORT(FindCompareOp);

const ElementwiseOp *FindBinary(kernels::BinaryOp op, DataType compute) {
    return HWY_DYNAMIC_DISPATCH(FindBinaryOp)(op, compute);
}

const ElementwiseOp *FindCompare(kernels::CompareOp op, DataType compute) {
    return HWY_DYNAMIC_DISPATCH(FindCompareOp)(op, compute);
}

}  // namespace infini_train::cpu
#endif
