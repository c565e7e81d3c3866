#include <type_traits>

#include "infini_train/src/kernels/cuda/convert.cuh"
#include "infini_train/src/kernels/cuda/reduce.cuh"
#include "infini_train/src/kernels/cuda/scratch.cuh"
#include "infini_train/src/kernels/cuda/strides.cuh"
#include "infini_train/src/kernels/finite.h"
#include "infini_train/src/kernels/registry.h"

namespace infini_train::cuda {
namespace {

struct OrOp {
    __device__ __forceinline__ int operator()(int a, int b) const { return a | b; }
};

template <typename C>
__device__ __forceinline__ int KindOf(C value) {
    if (value - value == C{0}) {
        return 0;
    }
    return value != value ? kernels::kHasNan : (value > C{0} ? kernels::kHasPositiveInf : kernels::kHasNegativeInf);
}

template <typename C, int kLength>
__global__ void __launch_bounds__(kBlock)
    FindKernel(const void *input, DataType dtype, Offsets<1, uint32_t> offsets, uint32_t num_groups, int *kinds) {
    const auto step = static_cast<uint32_t>(GridStep());
    int found = 0;
    for (auto i = static_cast<uint32_t>(GridIndex()); i < num_groups; i += step) {
        C values[kLength];
        LoadGroup(input, dtype, offsets.At(i)[0], values);
#pragma unroll
        for (int k = 0; k < kLength; ++k) {
            found |= KindOf(values[k]);
        }
    }
    found = BlockReduce(found, OrOp(), 0);
    if (threadIdx.x == 0 && found != 0) {
        atomicOr(kinds, found);
    }
}

template <typename C, int kLength>
void Find(const char *data, DataType dtype, StridedLoop loop, int *kinds) {
    if (kLength > 1) {
        loop.dims[0] /= kLength;
        loop.num_elements /= kLength;
        loop.strides[0][0] *= kLength;
    }
    Launch("FindNonFinite", {GridFor(loop.num_elements)}, FindKernel<C, kLength>, data, dtype,
           Offsets<1, uint32_t>(loop), static_cast<uint32_t>(loop.num_elements), kinds);
}

int FindNonFiniteKernel(ConstTensorRef input) {
    if (!IsFloatingPoint(input.dtype) || input.num_elements == 0) {
        return 0;
    }
    StridedLoop loop(input.Dims(), {{input.Dims(), input.strides}});
    loop.SortByMemory();
    const Scratch kinds(sizeof(int));
    CheckCuda(cudaMemsetAsync(kinds.data(), 0, sizeof(int), CurrentStream()), "FindNonFinite: cudaMemsetAsync");
    const auto run = [&]<typename C>(std::type_identity<C>) {
        ForEachSmall(loop, [&](const StridedLoop &piece, const int64_t *begin) {
            const char *const data = input.Data<char>() + begin[0] * static_cast<int64_t>(SizeOf(input.dtype));
            if (piece.ndim == 1 && piece.strides[0][0] == 1 && piece.dims[0] % kGroupLength<C> == 0 &&
                IsAligned(data)) {
                Find<C, kGroupLength<C>>(data, input.dtype, piece, kinds.As<int>());
            } else {
                Find<C, 1>(data, input.dtype, piece, kinds.As<int>());
            }
        });
    };
    if (input.dtype == DataType::kFLOAT64) {
        run(std::type_identity<double>{});
    } else {
        run(std::type_identity<float>{});
    }
    return ReadBack(kinds.As<int>());
}

}  // namespace
}  // namespace infini_train::cuda

namespace infini_train::kernels {

void RegisterFiniteCuda() {
    RegisterKernel<FindNonFinite>(DeviceType::kCUDA, &cuda::FindNonFiniteKernel);
}

}  // namespace infini_train::kernels
