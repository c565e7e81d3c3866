// Clamp and Where: more than two operands.

#include "infini_train/src/kernels/cpu/elementwise.h"
#include "infini_train/src/kernels/cpu/simd_targets.h"
#include "infini_train/src/kernels/functors.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "infini_train/src/kernels/cpu/elementwise_select.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "infini_train/src/kernels/cpu/elementwise_loops.h"

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu {
namespace HWY_NAMESPACE {

// The limits are the two elements of `params`.
template <typename T>
void ClampLoop(const void *const *in, void *out, int64_t n, const void *params) {
    const auto *x = static_cast<const T *>(in[0]);
    auto *y = static_cast<T *>(out);
    const T low = static_cast<const T *>(params)[0];
    const T high = static_cast<const T *>(params)[1];
    INFINI_TRAIN_INDEPENDENT_LOOP
    for (int64_t i = 0; i < n; ++i) {
        y[i] = functors::Clamp()(x[i], low, high);
    }
}

template <typename T>
void ClampBackwardLoop(const void *const *in, void *out, int64_t n, const void *params) {
    const auto *g = static_cast<const T *>(in[0]);
    const auto *x = static_cast<const T *>(in[1]);
    auto *y = static_cast<T *>(out);
    const T low = static_cast<const T *>(params)[0];
    const T high = static_cast<const T *>(params)[1];
    INFINI_TRAIN_INDEPENDENT_LOOP
    for (int64_t i = 0; i < n; ++i) {
        y[i] = functors::ClampBackward()(g[i], x[i], low, high);
    }
}

template <typename T, bool a_is_scalar, bool b_is_scalar>
void WhereLoop(const void *const *in, void *out, int64_t n, const void * /*params*/) {
    const auto *condition = static_cast<const uint8_t *>(in[0]);
    const auto *a = static_cast<const T *>(in[1]);
    const auto *b = static_cast<const T *>(in[2]);
    auto *y = static_cast<T *>(out);
    if constexpr (a_is_scalar) {
        const T fixed = *a;
        INFINI_TRAIN_INDEPENDENT_LOOP
        for (int64_t i = 0; i < n; ++i) {
            const T other = b_is_scalar ? b[0] : b[i];
            y[i] = condition[i] != 0 ? fixed : other;
        }
    } else {
        INFINI_TRAIN_INDEPENDENT_LOOP
        for (int64_t i = 0; i < n; ++i) {
            const T value = a[i];
            const T other = b_is_scalar ? b[0] : b[i];
            y[i] = condition[i] != 0 ? value : other;
        }
    }
}

template <typename T>
constexpr ElementwiseOp kClamp = {{&ClampLoop<T>}, 1, {kDataTypeOf<T>}, kDataTypeOf<T>, kCheapGrain};

template <typename T>
constexpr ElementwiseOp kClampBackward = {
    {&ClampBackwardLoop<T>}, 2, {kDataTypeOf<T>, kDataTypeOf<T>}, kDataTypeOf<T>, kCheapGrain};

template <typename T>
constexpr ElementwiseOp kWhere = {
    {&WhereLoop<T, false, false>, &WhereLoop<T, true, false>, &WhereLoop<T, false, true>, &WhereLoop<T, true, true>},
    3,
    {DataType::kBOOL, kDataTypeOf<T>, kDataTypeOf<T>},
    kDataTypeOf<T>,
    kCheapGrain};

const ElementwiseOp *FindClampOp(DataType compute) {
    switch (compute) {
        case DataType::kFLOAT32:
            return &kClamp<float>;
        case DataType::kFLOAT64:
            return &kClamp<double>;
        case DataType::kUINT64:
            return &kClamp<uint64_t>;
        default:
            return &kClamp<int64_t>;
    }
}

const ElementwiseOp *FindClampBackwardOp(DataType compute) {
    return compute == DataType::kFLOAT64 ? &kClampBackward<double> : &kClampBackward<float>;
}

const ElementwiseOp *FindWhereOp(DataType compute) {
    switch (compute) {
        case DataType::kFLOAT32:
            return &kWhere<float>;
        case DataType::kFLOAT64:
            return &kWhere<double>;
        case DataType::kUINT64:
            return &kWhere<uint64_t>;
        default:
            return &kWhere<int64_t>;
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace infini_train::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <cstring>

namespace infini_train::cpu {

HWY_EXPORT(FindClampOp);
HWY_EXPORT(FindClampBackwardOp);
HWY_EXPORT(FindWhereOp);

namespace {

// The two limits, one after the other, in the type of the loop.
struct Limits {
    Limits(Scalar low, Scalar high, DataType compute) {
        const size_t size = SizeOf(compute);
        std::memcpy(bytes, ScalarOperand(low, compute).Ref().data, size);
        std::memcpy(bytes + size, ScalarOperand(high, compute).Ref().data, size);
    }
    alignas(8) char bytes[16];
};

}  // namespace

void ClampKernel(TensorRef output, ConstTensorRef input, Scalar low, Scalar high) {
    const DataType compute = ComputeType(output.dtype);
    const Limits limits(low, high, compute);
    RunElementwise(*HWY_DYNAMIC_DISPATCH(FindClampOp)(compute), output, {&input, 1}, limits.bytes);
}

void ClampBackwardKernel(TensorRef grad_input, ConstTensorRef grad_output, ConstTensorRef input, Scalar low,
                         Scalar high) {
    const DataType compute = ComputeType(grad_input.dtype);
    const Limits limits(low, high, compute);
    const ConstTensorRef inputs[] = {grad_output, input};
    RunElementwise(*HWY_DYNAMIC_DISPATCH(FindClampBackwardOp)(compute), grad_input, inputs, limits.bytes);
}

void WhereKernel(TensorRef output, ConstTensorRef condition, ConstTensorRef a, ConstTensorRef b) {
    const ConstTensorRef inputs[] = {condition, a, b};
    RunElementwise(*HWY_DYNAMIC_DISPATCH(FindWhereOp)(ComputeType(output.dtype)), output, inputs);
}

}  // namespace infini_train::cpu
#endif
