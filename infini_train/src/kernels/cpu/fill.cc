#include "infini_train/src/kernels/fill.h"

#include <algorithm>
#include <cstring>

#include "infini_train/include/core/parallel.h"
#include "infini_train/include/dtype_dispatch.h"

#include "infini_train/src/kernels/cpu/convert.h"
#include "infini_train/src/kernels/cpu/copy.h"
#include "infini_train/src/kernels/cpu/loop_nest.h"
#include "infini_train/src/kernels/cpu/random.h"
#include "infini_train/src/kernels/registry.h"

namespace infini_train::cpu {
namespace {

// Below a megabyte, filling is faster than waking a thread.
constexpr int64_t kFillGrainBytes = 1 << 20;

// Elements of one size are filled alike, whatever their type.
template <typename Bits>
void FillRow(char *output, int64_t stride, int64_t n, Bits bits) {
    if (stride != sizeof(Bits)) {
        for (int64_t i = 0; i < n; ++i) {
            std::memcpy(output + i * stride, &bits, sizeof(Bits));
        }
    } else if (sizeof(Bits) == 1 || bits == 0) {
        std::memset(output, static_cast<int>(bits & 0xff), static_cast<size_t>(n) * sizeof(Bits));
    } else {
        std::fill_n(reinterpret_cast<Bits *>(output), n, bits);
    }
}

template <typename Bits>
void FillBits(const TensorRef &output, const void *value) {
    constexpr int64_t kGrain = kFillGrainBytes / sizeof(Bits);
    Bits bits;
    std::memcpy(&bits, value, sizeof(Bits));
    if (output.is_contiguous) {
        ParallelFor(0, output.num_elements, kGrain, [&](int64_t begin, int64_t end) {
            FillRow(reinterpret_cast<char *>(output.Data<Bits>() + begin), sizeof(Bits), end - begin, bits);
        });
        return;
    }
    const LoopNest nest(output, {});
    const int64_t stride = nest.RowStride(0);
    ParallelForRows(nest, kGrain, [&](int64_t row, int64_t end_row, int64_t first, int64_t last) {
        for (RowCursor cursor(nest, row); row < end_row; ++row, cursor.Next()) {
            FillRow(cursor.data()[0] + first * stride, stride, last - first, bits);
        }
    });
}

void FillKernel(TensorRef output, Scalar value) {
    if (output.num_elements == 0) {
        return;
    }
    DispatchDtype(output.dtype, [&]<typename T>() {
        const T converted = value.To<T>();
        switch (sizeof(T)) {
            case 1:
                return FillBits<uint8_t>(output, &converted);
            case 2:
                return FillBits<uint16_t>(output, &converted);
            case 4:
                return FillBits<uint32_t>(output, &converted);
            default:
                return FillBits<uint64_t>(output, &converted);
        }
    });
}

template <typename Wide, typename At>
void FillFrom(const TensorRef &output, DataType wide, At at) {
    const auto size = static_cast<int64_t>(SizeOf(output.dtype));
    ParallelFor(0, output.num_elements, 8 * kChunk, [&](int64_t begin, int64_t end) {
        Wide buffer[kChunk];
        for (int64_t first = begin; first < end; first += kChunk) {
            const int64_t n = std::min(kChunk, end - first);
            for (int64_t i = 0; i < n; ++i) {
                buffer[i] = at(first + i);
            }
            StoreConverted(buffer, wide, output.Data<char>() + first * size, size, output.dtype, n);
        }
    });
}

void ArangeKernel(TensorRef output, Scalar start, Scalar step) {
    if (start.IsFloatingPoint() || step.IsFloatingPoint()) {
        const double from = start.To<double>();
        const double by = step.To<double>();
        FillFrom<double>(output, DataType::kFLOAT64, [=](int64_t i) { return from + static_cast<double>(i) * by; });
        return;
    }
    // Unsigned, so that it wraps.
    const auto from = start.To<uint64_t>();
    const auto by = step.To<uint64_t>();
    const DataType wide = output.dtype == DataType::kUINT64 ? DataType::kUINT64 : DataType::kINT64;
    FillFrom<uint64_t>(output, wide, [=](int64_t i) { return from + static_cast<uint64_t>(i) * by; });
}

}  // namespace
}  // namespace infini_train::cpu

namespace infini_train::kernels {

void RegisterFillCpu() {
    RegisterKernel<Fill>(DeviceType::kCPU, &cpu::FillKernel);
    RegisterKernel<Copy>(DeviceType::kCPU, &cpu::CopyKernel);
    RegisterKernel<Arange>(DeviceType::kCPU, &cpu::ArangeKernel);
    RegisterKernel<UniformFill>(DeviceType::kCPU, &cpu::UniformFillKernel);
    RegisterKernel<NormalFill>(DeviceType::kCPU, &cpu::NormalFillKernel);
    RegisterKernel<RandIntFill>(DeviceType::kCPU, &cpu::RandIntFillKernel);
}

}  // namespace infini_train::kernels
