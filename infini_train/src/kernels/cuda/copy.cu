#include <algorithm>
#include <type_traits>
#include <utility>

#include "infini_train/src/kernels/cuda/copy.h"
#include "infini_train/src/kernels/cuda/elementwise.cuh"

namespace infini_train::cuda {
namespace {

struct Identity {
    template <typename C, int kLength>
    __device__ __forceinline__ void operator()(const C (&in)[1][kLength], C (&out)[kLength]) const {
#pragma unroll
        for (int i = 0; i < kLength; ++i) {
            out[i] = in[0][i];
        }
    }
};

// ---- The same elements elsewhere ------------------------------------------------------------------------------------

template <typename Bits, int kLength>
__global__ void __launch_bounds__(kBlock)
    CopyStridedKernel(Bits *output, const Bits *input, Offsets<2, uint32_t> offsets, uint32_t num_groups) {
    const auto step = static_cast<uint32_t>(GridStep());
    for (auto i = static_cast<uint32_t>(GridIndex()); i < num_groups; i += step) {
        const auto at = offsets.At(i);
        if constexpr (kLength == 1) {
            output[at[0]] = input[at[1]];
        } else {
            Vec<Bits, kLength>::Load(input + at[1]).Store(output + at[0]);
        }
    }
}

template <typename Bits, int kLength>
void CopyGroups(Bits *output, const Bits *input, StridedLoop loop) {
    if (kLength > 1) {
        const int inner = loop.ndim - 1;
        loop.dims[inner] /= kLength;
        loop.num_elements /= kLength;
        loop.strides[0][inner] *= kLength;
        loop.strides[1][inner] *= kLength;
    }
    Launch("Copy", {GridFor(loop.num_elements)}, CopyStridedKernel<Bits, kLength>, output, input,
           Offsets<2, uint32_t>(loop), static_cast<uint32_t>(loop.num_elements));
}

// ---- Transposes -----------------------------------------------------------------------------------------------------

// The side of the square that a block moves: at least a sector of the memory in either direction.
template <typename Bits>
inline constexpr int kTile = sizeof(Bits) <= 2 ? 64 : 32;

/// output[a][b] = input[b][a], where b is adjacent in the output and a in the input; strides in elements.
struct TransposePlane {
    uint32_t rows;     // a
    uint32_t columns;  // b
    int64_t output_stride;
    int64_t input_stride;
    FastDivider<uint32_t> column_tiles;
    FastDivider<uint32_t> tiles;  // of a plane
};

template <typename Bits>
__global__ void __launch_bounds__(kBlock)
    TransposeKernel(Bits *output, const Bits *input, TransposePlane plane, Offsets<2, uint32_t> planes) {
    constexpr int kSide = kTile<Bits>;
    constexpr int kRowsAtOnce = kBlock / kSide;
    // One more column, so that a column's elements lie in different banks.
    __shared__ Bits tile[kSide][kSide + 1];
    const uint32_t number = plane.tiles.Divide(blockIdx.x);
    const uint32_t in_plane = blockIdx.x - number * plane.tiles.divisor;
    const uint32_t tile_row = plane.column_tiles.Divide(in_plane);
    const uint32_t first_row = tile_row * kSide;
    const uint32_t first_column = (in_plane - tile_row * plane.column_tiles.divisor) * kSide;
    const auto begin = planes.At(number);
    const uint32_t x = threadIdx.x % kSide;
    const uint32_t y = threadIdx.x / kSide;

    const Bits *const from = input + begin[1];
    for (uint32_t i = y; i < kSide; i += kRowsAtOnce) {
        const uint32_t row = first_row + x;
        const uint32_t column = first_column + i;
        if (row < plane.rows && column < plane.columns) {
            tile[i][x] = from[column * plane.input_stride + row];
        }
    }
    __syncthreads();
    Bits *const to = output + begin[0];
    for (uint32_t i = y; i < kSide; i += kRowsAtOnce) {
        const uint32_t row = first_row + i;
        const uint32_t column = first_column + x;
        if (row < plane.rows && column < plane.columns) {
            to[row * plane.output_stride + column] = tile[x][i];
        }
    }
}

// The dim in which the input is adjacent, where the output isn't, if both are long enough for tiles; -1 otherwise.
int FindTransposed(const StridedLoop &loop) {
    const int last = loop.ndim - 1;
    if (loop.ndim < 2 || loop.strides[0][last] != 1 || loop.strides[1][last] <= 1 || loop.dims[last] < 8) {
        return -1;
    }
    for (int d = last - 1; d >= 0; --d) {
        if (loop.strides[1][d] == 1 && loop.dims[d] >= 8) {
            return d;
        }
    }
    return -1;
}

void Drop(StridedLoop *loop, int dim) {
    loop->num_elements /= loop->dims[dim];
    for (int d = dim; d + 1 < loop->ndim; ++d) {
        loop->dims[d] = loop->dims[d + 1];
        for (int k = 0; k < loop->num_operands; ++k) {
            loop->strides[k][d] = loop->strides[k][d + 1];
        }
    }
    --loop->ndim;
}

template <typename Bits>
void Transpose(Bits *output, const Bits *input, const StridedLoop &loop, int a) {
    constexpr int64_t kSide = kTile<Bits>;
    const int b = loop.ndim - 1;
    const int64_t row_tiles = (loop.dims[a] + kSide - 1) / kSide;
    const int64_t column_tiles = (loop.dims[b] + kSide - 1) / kSide;
    const TransposePlane plane{static_cast<uint32_t>(loop.dims[a]),
                               static_cast<uint32_t>(loop.dims[b]),
                               loop.strides[0][a],
                               loop.strides[1][b],
                               FastDivider<uint32_t>(column_tiles),
                               FastDivider<uint32_t>(row_tiles * column_tiles)};
    StridedLoop planes = loop;
    Drop(&planes, b);
    Drop(&planes, a);
    const auto blocks = static_cast<unsigned>(planes.num_elements * row_tiles * column_tiles);
    Launch("Copy", {blocks}, TransposeKernel<Bits>, output, input, plane, Offsets<2, uint32_t>(planes));
}

// ---------------------------------------------------------------------------------------------------------------------

template <typename Bits>
void CopySmall(Bits *output, const Bits *input, const StridedLoop &loop, DataType dtype) {
    constexpr int kLength = kVecLength<Bits>;
    if (const int a = FindTransposed(loop); a >= 0) {
        return Transpose(output, input, loop, a);
    }
    const int inner = loop.ndim - 1;
    if (loop.ndim > 0 && loop.dims[inner] % kLength == 0 && loop.strides[1][inner] == 1 &&
        internal::IsGrouped(loop, 0, output, dtype, kLength) && internal::IsGrouped(loop, 1, input, dtype, kLength)) {
        return CopyGroups<Bits, kLength>(output, input, loop);
    }
    CopyGroups<Bits, 1>(output, input, loop);
}

template <typename Bits>
void CopyBits(const TensorRef &output, const ConstTensorRef &input) {
    StridedLoop loop(output.Dims(), {{output.Dims(), output.strides}, {input.Dims(), input.strides}});
    loop.SortByMemory();
    if (loop.IsContiguous(0) && loop.IsContiguous(1)) {
        const size_t bytes = static_cast<size_t>(loop.num_elements) * sizeof(Bits);
        if (output.data != input.data) {
            CheckCuda(cudaMemcpyAsync(output.data, input.data, bytes, cudaMemcpyDeviceToDevice, CurrentStream()),
                      "Copy: cudaMemcpyAsync");
        }
        return;
    }
    ForEachSmall(loop, [&](const StridedLoop &piece, const int64_t *begin) {
        CopySmall(output.Data<Bits>() + begin[0], input.Data<Bits>() + begin[1], piece, output.dtype);
    });
}

}  // namespace

void CopyKernel(TensorRef output, ConstTensorRef input) {
    if (output.num_elements == 0) {
        return;
    }
    if (output.dtype == input.dtype) {
        VisitBits(SizeOf(output.dtype),
                  [&]<typename Bits>(std::type_identity<Bits>) { CopyBits<Bits>(output, input); });
        return;
    }
    VisitWide(input.dtype, [&]<typename C>(std::type_identity<C>) {
        const ElementwiseInput<C> inputs[] = {input};
        RunElementwise("Copy", output, inputs, Identity());
    });
}

}  // namespace infini_train::cuda
