#pragma once

#include <cstdint>
#include <type_traits>

#include "infini_train/src/cuda/strided_loop.h"
#include "infini_train/src/kernels/cuda/launch.cuh"

namespace infini_train::cuda {

/// Divides by a number that is the same for a whole kernel. 32 bits: a multiplication and a shift (Granlund and
/// Montgomery, "Division by invariant integers using multiplication", 1994), right for dividends below 2^31.
template <typename Index>
struct FastDivider {
    Index divisor = 1;

    FastDivider() = default;
    explicit FastDivider(int64_t value) : divisor(static_cast<Index>(value)) {}
    __device__ __forceinline__ Index Divide(Index n) const { return n / divisor; }
};
template <>
struct FastDivider<uint32_t> {
    uint32_t divisor = 1;
    uint32_t magic = 1;
    uint32_t shift = 0;

    FastDivider() = default;
    explicit FastDivider(int64_t value) : divisor(static_cast<uint32_t>(value)) {
        while ((uint64_t{1} << shift) < divisor) {
            ++shift;
        }
        magic = static_cast<uint32_t>((((uint64_t{1} << shift) - divisor) << 32) / divisor + 1);
    }
    __device__ __forceinline__ uint32_t Divide(uint32_t n) const {
        return (static_cast<uint32_t>(static_cast<uint64_t>(n) * magic >> 32) + n) >> shift;
    }
};

/// From an element's number in a StridedLoop to the offsets, in elements, of its operands; for kernels to take by
/// value.
template <int kOperands, typename IndexType>
struct Offsets {
    using Index = IndexType;  ///< uint32_t or uint64_t
    using Offset = std::conditional_t<std::is_same_v<Index, uint32_t>, int32_t, int64_t>;
    struct All {
        Offset of[kOperands];
        __device__ __forceinline__ Offset operator[](int k) const { return of[k]; }
    };

    int ndim;
    FastDivider<Index> dims[kMaxStridedDims];
    Offset strides[kMaxStridedDims][kOperands];

    explicit Offsets(const StridedLoop &loop) : ndim(loop.ndim) {
        for (int d = 0; d < ndim; ++d) {
            // Innermost first, as the kernel goes.
            const int from = ndim - 1 - d;
            dims[d] = FastDivider<Index>(loop.dims[from]);
            for (int k = 0; k < kOperands; ++k) {
                strides[d][k] = static_cast<Offset>(loop.strides[k][from]);
            }
        }
    }

    __device__ __forceinline__ All At(Index index) const {
        All all{};
#pragma unroll 1
        for (int d = 0; d < ndim; ++d) {
            const Index quotient = d + 1 < ndim ? dims[d].Divide(index) : 0;
            const auto coordinate = static_cast<Offset>(index - quotient * dims[d].divisor);
            index = quotient;
#pragma unroll
            for (int k = 0; k < kOperands; ++k) {
                all.of[k] += coordinate * strides[d][k];
            }
        }
        return all;
    }
};

/// Calls `body(offsets)` with the Offsets of `kOperands` operands, of 32 bits where they are enough.
template <int kOperands, typename F>
void VisitOffsets(const StridedLoop &loop, F &&body) {
    if (loop.IsSmall()) {
        body(Offsets<kOperands, uint32_t>(loop));
    } else {
        body(Offsets<kOperands, uint64_t>(loop));
    }
}

}  // namespace infini_train::cuda
