#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "infini_train/include/scalar.h"

#include "infini_train/src/kernels/cuda/convert.cuh"
#include "infini_train/src/kernels/cuda/launch.cuh"
#include "infini_train/src/kernels/cuda/strides.cuh"
#include "infini_train/src/kernels/tensor_ref.h"

// One kernel for all elementwise operators that compute in C (float, double, int64_t or uint64_t): operands of any data
// types and strides. Operator and data types are arguments rather than template parameters: a switch that all threads
// take alike costs little beside the memory, and compiles once.

namespace infini_train::cuda {

/// An input: a tensor, or a number where `tensor` is null.
template <typename C>
struct ElementwiseInput {
    ElementwiseInput(const ConstTensorRef &ref) : tensor(&ref) {}  // NOLINT(google-explicit-constructor)
    ElementwiseInput(Scalar value) : number(value.To<C>()) {}      // NOLINT(google-explicit-constructor)

    const ConstTensorRef *tensor = nullptr;
    C number{};
};

/// What the kernel sees of its operands.
template <typename C, int kInputs>
struct ElementwiseOperands {
    void *output;
    DataType output_dtype;
    const void *inputs[kInputs];  // null for a number
    DataType dtypes[kInputs];
    bool is_fixed[kInputs];  // one element for a whole group
    C numbers[kInputs];
};

template <typename C, int kInputs, int kLength, typename Op>
__global__ void __launch_bounds__(kBlock)
    ElementwiseKernel(ElementwiseOperands<C, kInputs> operands, Offsets<kInputs + 1, uint32_t> offsets,
                      uint32_t num_groups, Op op) {
    const auto step = static_cast<uint32_t>(GridStep());
    for (auto group = static_cast<uint32_t>(GridIndex()); group < num_groups; group += step) {
        const auto at = offsets.At(group);
        C in[kInputs][kLength];
#pragma unroll
        for (int k = 0; k < kInputs; ++k) {
            if (operands.is_fixed[k]) {
                C value[1] = {operands.numbers[k]};
                if (operands.inputs[k] != nullptr) {
                    LoadGroup(operands.inputs[k], operands.dtypes[k], at[k + 1], value);
                }
#pragma unroll
                for (int i = 0; i < kLength; ++i) {
                    in[k][i] = value[0];
                }
            } else {
                LoadGroup(operands.inputs[k], operands.dtypes[k], at[k + 1], in[k]);
            }
        }
        C out[kLength];
        op(in, out);
        StoreGroup(operands.output, operands.output_dtype, at[0], out);
    }
}

namespace internal {

/// Whether groups of `length` elements of operand k are adjacent and aligned, the output's (k = 0), or fixed.
inline bool IsGrouped(const StridedLoop &loop, int k, const void *data, DataType dtype, int length) {
    const int inner = loop.ndim - 1;
    if (k > 0 && loop.strides[k][inner] == 0) {
        return true;
    }
    const auto size = static_cast<int64_t>(SizeOf(dtype));
    const int64_t alignment = std::min<int64_t>(16, size * length);
    bool grouped = loop.strides[k][inner] == 1 && IsAligned(data, static_cast<size_t>(alignment));
    for (int d = 0; d < inner; ++d) {
        grouped = grouped && loop.strides[k][d] * size % alignment == 0;
    }
    return grouped;
}

template <typename C, int kInputs, int kLength, typename Op>
void LaunchElementwise(const char *name, const ElementwiseOperands<C, kInputs> &operands, StridedLoop loop,
                       const Op &op) {
    if (kLength > 1) {
        // The loop counts groups.
        const int inner = loop.ndim - 1;
        loop.dims[inner] /= kLength;
        loop.num_elements /= kLength;
        for (int k = 0; k <= kInputs; ++k) {
            loop.strides[k][inner] *= kLength;
        }
    }
    const Offsets<kInputs + 1, uint32_t> offsets(loop);
    Launch(name, {GridFor(loop.num_elements)}, ElementwiseKernel<C, kInputs, kLength, Op>, operands, offsets,
           static_cast<uint32_t>(loop.num_elements), op);
}

/// For a loop that is small enough for 31 bits.
template <typename C, int kInputs, typename Op>
void RunSmall(const char *name, ElementwiseOperands<C, kInputs> operands, const StridedLoop &loop, const Op &op) {
    constexpr int kLength = kGroupLength<C>;
    bool grouped = kLength > 1 && loop.ndim > 0 && HasGroups<C>(operands.output_dtype) &&
                   IsGrouped(loop, 0, operands.output, operands.output_dtype, kLength);
    for (int k = 0; k < kInputs; ++k) {
        const bool is_number = operands.inputs[k] == nullptr;
        operands.is_fixed[k] = is_number || (loop.ndim > 0 && loop.strides[k + 1][loop.ndim - 1] == 0);
        grouped = grouped && (is_number || HasGroups<C>(operands.dtypes[k])) &&
                  IsGrouped(loop, k + 1, operands.inputs[k], operands.dtypes[k], kLength);
    }
    const int64_t length = loop.ndim > 0 ? loop.dims[loop.ndim - 1] : 1;
    if (grouped && length % kLength == 0) {
        return LaunchElementwise<C, kInputs, kLength>(name, operands, loop, op);
    }
    if (!grouped || loop.ndim > 1 || length < 16 * kBlock) {
        return LaunchElementwise<C, kInputs, 1>(name, operands, loop, op);
    }
    // One long row: all but the last few.
    StridedLoop part = loop;
    part.dims[0] = part.num_elements = length / kLength * kLength;
    LaunchElementwise<C, kInputs, kLength>(name, operands, part, op);
    const int64_t done = part.num_elements;
    part.dims[0] = part.num_elements = length - done;
    operands.output = static_cast<char *>(operands.output) + done * static_cast<int64_t>(SizeOf(operands.output_dtype));
    for (int k = 0; k < kInputs; ++k) {
        if (operands.inputs[k] != nullptr) {
            operands.inputs[k] = static_cast<const char *>(operands.inputs[k]) +
                                 done * loop.strides[k + 1][0] * static_cast<int64_t>(SizeOf(operands.dtypes[k]));
        }
    }
    LaunchElementwise<C, kInputs, 1>(name, operands, part, op);
}

}  // namespace internal

/// output = op(inputs...), element by element: `op(const C (&in)[kInputs][n], C (&out)[n])` does n at a time.
template <typename C, int kInputs, typename Op>
void RunElementwise(const char *name, const TensorRef &output, const ElementwiseInput<C> (&inputs)[kInputs],
                    const Op &op) {
    if (output.num_elements == 0) {
        return;
    }
    ElementwiseOperands<C, kInputs> operands{};
    StridedLoop::Operand lies[kInputs + 1] = {{output.Dims(), output.strides}};
    operands.output = output.data;
    operands.output_dtype = output.dtype;
    for (int k = 0; k < kInputs; ++k) {
        operands.numbers[k] = inputs[k].number;
        if (const ConstTensorRef *const tensor = inputs[k].tensor) {
            operands.inputs[k] = tensor->data;
            operands.dtypes[k] = tensor->dtype;
            lies[k + 1] = {tensor->Dims(), tensor->strides};
        }
    }
    StridedLoop loop(output.Dims(), std::span<const StridedLoop::Operand>(lies, kInputs + 1));
    loop.SortByMemory();
    ForEachSmall(loop, [&](const StridedLoop &piece, const int64_t *offsets) {
        ElementwiseOperands<C, kInputs> moved = operands;
        moved.output =
            static_cast<char *>(moved.output) + offsets[0] * static_cast<int64_t>(SizeOf(moved.output_dtype));
        for (int k = 0; k < kInputs; ++k) {
            if (moved.inputs[k] != nullptr) {
                moved.inputs[k] = static_cast<const char *>(moved.inputs[k]) +
                                  offsets[k + 1] * static_cast<int64_t>(SizeOf(moved.dtypes[k]));
            }
        }
        internal::RunSmall<C, kInputs>(name, moved, piece, op);
    });
}

/// A functor of functors.h for all elements of a group.
template <typename F, typename C, int kLength>
__device__ __forceinline__ void ForEach(F f, const C (&in)[1][kLength], C (&out)[kLength]) {
#pragma unroll
    for (int i = 0; i < kLength; ++i) {
        out[i] = f(in[0][i]);
    }
}
template <typename F, typename C, int kLength>
__device__ __forceinline__ void ForEach(F f, const C (&in)[2][kLength], C (&out)[kLength]) {
#pragma unroll
    for (int i = 0; i < kLength; ++i) {
        out[i] = static_cast<C>(f(in[0][i], in[1][i]));
    }
}

}  // namespace infini_train::cuda
