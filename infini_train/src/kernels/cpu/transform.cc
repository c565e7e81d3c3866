// Triangles, masks and joins. They only move bytes, so they work on unsigned integers of the element's size.

#include "infini_train/src/kernels/transform.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "infini_train/include/core/parallel.h"

#include "infini_train/src/kernels/cpu/rows.h"
#include "infini_train/src/kernels/cpu/simd_targets.h"
#include "infini_train/src/kernels/element_size.h"
#include "infini_train/src/kernels/registry.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "infini_train/src/kernels/cpu/transform.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace infini_train::cpu::HWY_NAMESPACE {

// A row of MaskedFill; the common strides get loops that the compiler vectorises.
template <typename T>
void SelectRow(T *HWY_RESTRICT out, const T *HWY_RESTRICT in, int64_t in_stride, const uint8_t *HWY_RESTRICT mask,
               int64_t mask_stride, T value, int64_t count) {
    if (in_stride == 1 && mask_stride == 1) {
        for (int64_t i = 0; i < count; ++i) {
            out[i] = mask[i] != 0 ? value : in[i];
        }
    } else {
        for (int64_t i = 0; i < count; ++i) {
            out[i] = mask[i * mask_stride] != 0 ? value : in[i * in_stride];
        }
    }
}

void SelectRow8(uint8_t *out, const uint8_t *in, int64_t in_stride, const uint8_t *mask, int64_t mask_stride,
                uint8_t value, int64_t count) {
    SelectRow(out, in, in_stride, mask, mask_stride, value, count);
}
void SelectRow16(uint16_t *out, const uint16_t *in, int64_t in_stride, const uint8_t *mask, int64_t mask_stride,
                 uint16_t value, int64_t count) {
    SelectRow(out, in, in_stride, mask, mask_stride, value, count);
}
void SelectRow32(uint32_t *out, const uint32_t *in, int64_t in_stride, const uint8_t *mask, int64_t mask_stride,
                 uint32_t value, int64_t count) {
    SelectRow(out, in, in_stride, mask, mask_stride, value, count);
}
void SelectRow64(uint64_t *out, const uint64_t *in, int64_t in_stride, const uint8_t *mask, int64_t mask_stride,
                 uint64_t value, int64_t count) {
    SelectRow(out, in, in_stride, mask, mask_stride, value, count);
}

}  // namespace infini_train::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace infini_train::cpu {

HWY_EXPORT(SelectRow8);
HWY_EXPORT(SelectRow16);
HWY_EXPORT(SelectRow32);
HWY_EXPORT(SelectRow64);

namespace {

constexpr int64_t kGrainBytes = 64 * 1024;  // some 5 us of copying

template <typename T>
auto SelectRowKernel() {
    if constexpr (sizeof(T) == 1) {
        return &HWY_DYNAMIC_DISPATCH(SelectRow8);
    } else if constexpr (sizeof(T) == 2) {
        return &HWY_DYNAMIC_DISPATCH(SelectRow16);
    } else if constexpr (sizeof(T) == 4) {
        return &HWY_DYNAMIC_DISPATCH(SelectRow32);
    } else {
        return &HWY_DYNAMIC_DISPATCH(SelectRow64);
    }
}

void MaskedFillKernel(TensorRef output, ConstTensorRef input, ConstTensorRef mask, Scalar value) {
    const int64_t one = 1;
    std::span<const int64_t> dims = output.Dims();
    std::array<const int64_t *, 3> strides{output.strides, input.strides, mask.strides};
    if (input.is_contiguous && mask.is_contiguous) {
        dims = {&output.num_elements, 1};
        strides = {&one, &one, &one};
    }
    const int64_t in_stride = dims.empty() ? 1 : strides[1][dims.size() - 1];
    const int64_t mask_stride = dims.empty() ? 1 : strides[2][dims.size() - 1];
    kernels::DispatchElementSize(SizeOf(output.dtype), [&]<typename T>() {
        const auto select_row = SelectRowKernel<T>();
        const T bits = kernels::BitsOf<T>(value, output.dtype);
        const auto grain = kGrainBytes / static_cast<int64_t>(sizeof(T));
        ParallelFor(0, output.num_elements, grain, [&](int64_t begin, int64_t end) {
            ForEachRow<3>(dims, strides, begin, end, [&](const auto &offsets, int64_t count) {
                select_row(output.Data<T>() + offsets[0], input.Data<T>() + offsets[1], in_stride,
                           mask.Data<uint8_t>() + offsets[2], mask_stride, bits, count);
            });
        });
    });
}

template <typename T>
void CopyTriangleRow(T *out, const T *in, int64_t in_stride, int64_t keep_begin, int64_t keep_end, int64_t columns) {
    std::fill(out, out + keep_begin, T{0});
    if (in_stride == 1) {
        std::copy(in + keep_begin, in + keep_end, out + keep_begin);
    } else {
        for (int64_t i = keep_begin; i < keep_end; ++i) {
            out[i] = in[i * in_stride];
        }
    }
    std::fill(out + keep_end, out + columns, T{0});
}

void TriangleKernel(TensorRef output, ConstTensorRef input, int64_t diagonal, bool lower) {
    if (output.num_elements == 0) {
        return;
    }
    const int64_t rows = output.dims[output.ndim - 2];
    const int64_t columns = output.dims[output.ndim - 1];
    const int64_t in_stride = input.strides[input.ndim - 1];
    kernels::DispatchElementSize(SizeOf(output.dtype), [&]<typename T>() {
        const int64_t grain = std::max<int64_t>(1, kGrainBytes / static_cast<int64_t>(sizeof(T)) / columns);
        ParallelFor(0, output.num_elements / columns, grain, [&](int64_t begin, int64_t end) {
            int64_t row = begin % rows;
            ForEachRow<2>(output.Dims(), {output.strides, input.strides}, begin * columns, end * columns,
                          [&](const auto &offsets, int64_t) {
                              const int64_t cut = std::clamp<int64_t>(row + diagonal + (lower ? 1 : 0), 0, columns);
                              CopyTriangleRow(output.Data<T>() + offsets[0], input.Data<T>() + offsets[1], in_stride,
                                              lower ? 0 : cut, lower ? cut : columns, columns);
                              row = row + 1 == rows ? 0 : row + 1;
                          });
        });
    });
}

// For every index before `dim` the output holds one block of each input in turn.
void ConcatKernel(TensorRef output, std::span<const ConstTensorRef> inputs, int dim) {
    if (output.num_elements == 0) {
        return;
    }
    auto inner = static_cast<int64_t>(SizeOf(output.dtype));
    for (int d = dim + 1; d < output.ndim; ++d) {
        inner *= output.dims[d];
    }
    const int64_t row_bytes = output.dims[dim] * inner;
    const int64_t total_bytes = output.num_elements * static_cast<int64_t>(SizeOf(output.dtype));
    std::vector<int64_t> starts;  // where each input's block begins in a row of blocks, and their end
    starts.reserve(inputs.size() + 1);
    starts.push_back(0);
    for (const auto &input : inputs) {
        starts.push_back(starts.back() + input.dims[dim] * inner);
    }
    ParallelFor(0, total_bytes, kGrainBytes, [&](int64_t begin, int64_t end) {
        int64_t row = begin / row_bytes;
        int64_t within = begin % row_bytes;
        auto piece = static_cast<size_t>(std::upper_bound(starts.begin(), starts.end(), within) - starts.begin()) - 1;
        while (begin < end) {
            const int64_t block = starts[piece + 1] - starts[piece];
            const int64_t skip = within - starts[piece];
            const int64_t count = std::min(block - skip, end - begin);
            if (count > 0) {
                std::memcpy(output.Data<char>() + begin, inputs[piece].Data<char>() + row * block + skip,
                            static_cast<size_t>(count));
            }
            begin += count;
            within = starts[piece + 1];
            if (++piece == inputs.size()) {
                piece = 0;
                within = 0;
                ++row;
            }
        }
    });
}

}  // namespace
}  // namespace infini_train::cpu

namespace infini_train::kernels {

void RegisterTransformCpu() {
    RegisterKernel<MaskedFill>(DeviceType::kCPU, &cpu::MaskedFillKernel);
    RegisterKernel<Triangle>(DeviceType::kCPU, &cpu::TriangleKernel);
    RegisterKernel<Concat>(DeviceType::kCPU, &cpu::ConcatKernel);
}

}  // namespace infini_train::kernels
#endif  // HWY_ONCE
