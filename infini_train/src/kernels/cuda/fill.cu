// Fill and Arange.

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "infini_train/include/dtype_dispatch.h"

#include "infini_train/src/kernels/cuda/convert.cuh"
#include "infini_train/src/kernels/cuda/copy.h"
#include "infini_train/src/kernels/cuda/random.h"
#include "infini_train/src/kernels/cuda/strides.cuh"
#include "infini_train/src/kernels/fill.h"
#include "infini_train/src/kernels/registry.h"

namespace infini_train::cuda {
namespace {

// Sixteen bytes at a time, and what is left of the memory after them.
template <typename Bits>
__global__ void __launch_bounds__(kBlock) FillContiguousKernel(Bits *output, int64_t num_elements, Bits bits) {
    constexpr int kLength = kVecLength<Bits>;
    Vec<Bits, kLength> group;
#pragma unroll
    for (int i = 0; i < kLength; ++i) {
        group[i] = bits;
    }
    const int64_t num_groups = num_elements / kLength;
    for (int64_t i = GridIndex(); i < num_groups; i += GridStep()) {
        group.Store(output + i * kLength);
    }
    const int64_t rest = num_groups * kLength + GridIndex();
    if (rest < num_elements) {
        output[rest] = bits;
    }
}

template <typename Bits>
__global__ void __launch_bounds__(kBlock)
    FillStridedKernel(Bits *output, Offsets<1, uint32_t> offsets, uint32_t num_elements, Bits bits) {
    const auto step = static_cast<uint32_t>(GridStep());
    for (auto i = static_cast<uint32_t>(GridIndex()); i < num_elements; i += step) {
        output[offsets.At(i)[0]] = bits;
    }
}

void FillKernel(TensorRef output, Scalar value) {
    if (output.num_elements == 0) {
        return;
    }
    uint64_t converted = 0;
    DispatchDtype(output.dtype, [&]<typename T>() {
        const T number = value.To<T>();
        std::memcpy(&converted, &number, sizeof(number));
    });
    StridedLoop loop(output.Dims(), {{output.Dims(), output.strides}});
    loop.SortByMemory();
    VisitBits(SizeOf(output.dtype), [&]<typename Bits>(std::type_identity<Bits>) {
        const auto bits = static_cast<Bits>(converted);
        if (loop.IsContiguous(0) && IsAligned(output.data)) {
            const int64_t groups = std::max<int64_t>(loop.num_elements / kVecLength<Bits>, kVecLength<Bits>);
            Launch("Fill", {GridFor(groups)}, FillContiguousKernel<Bits>, output.Data<Bits>(), loop.num_elements, bits);
            return;
        }
        ForEachSmall(loop, [&](const StridedLoop &piece, const int64_t *begin) {
            Launch("Fill", {GridFor(piece.num_elements)}, FillStridedKernel<Bits>, output.Data<Bits>() + begin[0],
                   Offsets<1, uint32_t>(piece), static_cast<uint32_t>(piece.num_elements), bits);
        });
    });
}

template <typename Wide>
__global__ void __launch_bounds__(kBlock)
    ArangeKernel(void *output, DataType dtype, int64_t num_elements, Wide start, Wide step) {
    for (int64_t i = GridIndex(); i < num_elements; i += GridStep()) {
        if constexpr (std::is_same_v<Wide, double>) {
            const double value[1] = {start + static_cast<double>(i) * step};
            StoreGroup(output, dtype, i, value);
        } else {
            // Unsigned, so that it wraps.
            const auto bits = static_cast<uint64_t>(start) + static_cast<uint64_t>(i) * static_cast<uint64_t>(step);
            const Wide value[1] = {static_cast<Wide>(bits)};
            StoreGroup(output, dtype, i, value);
        }
    }
}

void ArangeFill(TensorRef output, Scalar start, Scalar step) {
    const auto run = [&]<typename Wide>(std::type_identity<Wide>, Wide from, Wide by) {
        Launch("Arange", {GridFor(output.num_elements)}, ArangeKernel<Wide>, output.data, output.dtype,
               output.num_elements, from, by);
    };
    if (start.IsFloatingPoint() || step.IsFloatingPoint()) {
        run(std::type_identity<double>{}, start.To<double>(), step.To<double>());
    } else if (output.dtype == DataType::kUINT64) {
        run(std::type_identity<uint64_t>{}, start.To<uint64_t>(), step.To<uint64_t>());
    } else {
        run(std::type_identity<int64_t>{}, start.To<int64_t>(), step.To<int64_t>());
    }
}

}  // namespace
}  // namespace infini_train::cuda

namespace infini_train::kernels {

void RegisterFillCuda() {
    RegisterKernel<Fill>(DeviceType::kCUDA, &cuda::FillKernel);
    RegisterKernel<Copy>(DeviceType::kCUDA, &cuda::CopyKernel);
    RegisterKernel<Arange>(DeviceType::kCUDA, &cuda::ArangeFill);
    RegisterKernel<UniformFill>(DeviceType::kCUDA, &cuda::UniformFillKernel);
    RegisterKernel<NormalFill>(DeviceType::kCUDA, &cuda::NormalFillKernel);
    RegisterKernel<RandIntFill>(DeviceType::kCUDA, &cuda::RandIntFillKernel);
}

}  // namespace infini_train::kernels
