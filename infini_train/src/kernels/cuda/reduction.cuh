#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "infini_train/src/kernels/cuda/convert.cuh"
#include "infini_train/src/kernels/cuda/launch.cuh"
#include "infini_train/src/kernels/cuda/scratch.cuh"
#include "infini_train/src/kernels/cuda/strides.cuh"
#include "infini_train/src/kernels/tensor_ref.h"

// Reductions over any dims. A block is a small table of threads: `lanes_x` results side by side, each made by `lanes_y`
// threads. Where there are too few results to fill the device, what is reduced is split, too, and a second kernel
// combines the parts. The order of all steps is fixed.

namespace infini_train::cuda {

/// An operation on elements read as C. Make gives an element's partial result from its value and its place among those
/// that are reduced; Finish what is stored, as a Result.
template <typename C>
struct SumReduction {
    using Element = C;
    using Partial = std::conditional_t<std::is_floating_point_v<C>, double, int64_t>;
    using Result = C;
    double divisor = 1;

    __host__ __device__ static Partial Identity() { return 0; }
    __device__ Partial Make(C value, int64_t) const { return static_cast<Partial>(value); }
    __device__ Partial Combine(Partial a, Partial b) const {
        if constexpr (std::is_integral_v<C>) {
            return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));  // wraps
        } else {
            return a + b;
        }
    }
    __device__ Result Finish(Partial partial) const {
        if constexpr (std::is_integral_v<C>) {
            return partial;
        } else {
            return static_cast<C>(divisor == 1.0 ? partial : partial / divisor);
        }
    }
};

template <typename C, bool kMax>
struct ExtremeReduction {
    using Element = C;
    using Partial = C;
    using Result = C;

    __host__ __device__ static Partial Identity() {
        if constexpr (std::is_floating_point_v<C>) {
            return kMax ? -std::numeric_limits<C>::infinity() : std::numeric_limits<C>::infinity();
        } else {
            return kMax ? std::numeric_limits<C>::lowest() : std::numeric_limits<C>::max();
        }
    }
    __device__ Partial Make(C value, int64_t) const { return value; }
    __device__ Partial Combine(Partial a, Partial b) const {
        // No comparison is true of a NaN, which stays.
        return (kMax ? b > a : b < a) || b != b ? b : a;
    }
    __device__ Result Finish(Partial partial) const { return partial; }
};

template <typename C>
struct Found {
    C value;
    int64_t position;  // negative: none
};

template <typename C, bool kMax>
struct PositionReduction {
    using Element = C;
    using Partial = Found<C>;
    using Result = int64_t;

    __host__ __device__ static Partial Identity() { return {C{0}, -1}; }
    __device__ Partial Make(C value, int64_t position) const { return {value, position}; }
    __device__ Partial Combine(const Partial &a, const Partial &b) const {
        if (a.position < 0 || b.position < 0) {
            return a.position < 0 ? b : a;
        }
        const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
        if (a_nan != b_nan) {
            return a_nan ? a : b;
        }
        if (a_nan || a.value == b.value) {
            return a.position < b.position ? a : b;
        }
        return (kMax ? a.value > b.value : a.value < b.value) ? a : b;
    }
    __device__ Result Finish(const Partial &partial) const { return partial.position; }
};

/// How the threads of a block are dealt out, and the work between blocks.
struct ReductionShape {
    int lanes_x = 1, lanes_y = kBlock;
    bool kept_is_fast = false;  ///< neighbours in memory belong to different results
    int splits = 1;
    int64_t num_kept = 1, num_reduced = 1;

    int64_t PerSplit() const { return (num_reduced + splits - 1) / splits; }
};

template <typename Op, typename Index>
struct ReductionArguments {
    const void *input;
    DataType input_dtype;
    void *output;
    DataType output_dtype;
    typename Op::Partial *partials;  // [split][result], where it is split
    Offsets<1, Index> kept, reduced;
    ReductionShape shape;
    int64_t per_split;
    Op op;
};

template <typename Op>
__device__ __forceinline__ void StoreResult(const Op &op, void *output, DataType dtype, int64_t at,
                                            const typename Op::Partial &partial) {
    const typename Op::Result result[1] = {op.Finish(partial)};
    StoreGroup(output, dtype, at, result);
}

/// Combines the rows of tables of lanes_y rows of lanes_x partial results each, into the first.
template <int kTables, typename Op>
__device__ __forceinline__ void FoldTables(const Op &op, typename Op::Partial (*tables)[kBlock], int num_tables,
                                           int lanes_x, int lanes_y, int x, int y) {
    for (int step = lanes_y / 2; step > 0; step /= 2) {
        __syncthreads();
        if (y < step) {
#pragma unroll
            for (int k = 0; k < kTables; ++k) {
                if (k < num_tables) {
                    typename Op::Partial &into = tables[k][y * lanes_x + x];
                    into = op.Combine(into, tables[k][(y + step) * lanes_x + x]);
                }
            }
        }
    }
}

/// Groups of kLength elements, if it isn't 1, are adjacent and aligned: of different results if kept_is_fast, of one
/// otherwise. The shape and the offsets count groups.
template <typename Op, typename Index, int kLength>
__global__ void __launch_bounds__(kBlock) ReduceKernel(ReductionArguments<Op, Index> a) {
    using Partial = typename Op::Partial;
    __shared__ Partial parts[kLength][kBlock];
    const auto thread = static_cast<int>(threadIdx.x);
    const ReductionShape &shape = a.shape;
    const int x = shape.kept_is_fast ? thread % shape.lanes_x : thread / shape.lanes_y;
    const int y = shape.kept_is_fast ? thread / shape.lanes_x : thread % shape.lanes_y;
    const int results = shape.kept_is_fast ? kLength : 1;  // of a thread
    const int64_t places = kLength / results;              // among what is reduced, of a group
    const int64_t begin = static_cast<int64_t>(blockIdx.y) * a.per_split;
    const int64_t end = begin + a.per_split < shape.num_reduced ? begin + a.per_split : shape.num_reduced;
    const int64_t tiles = (shape.num_kept + shape.lanes_x - 1) / shape.lanes_x;
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int64_t kept = tile * shape.lanes_x + x;
        Partial partials[kLength];
#pragma unroll
        for (int k = 0; k < kLength; ++k) {
            partials[k] = Op::Identity();
        }
        if (kept < shape.num_kept) {
            const int64_t base = a.kept.At(static_cast<Index>(kept))[0];
            for (int64_t r = begin + y; r < end; r += shape.lanes_y) {
                typename Op::Element values[kLength];
                LoadGroup(a.input, a.input_dtype, base + a.reduced.At(static_cast<Index>(r))[0], values);
#pragma unroll
                for (int k = 0; k < kLength; ++k) {
                    const int64_t place = r * places + (places > 1 ? k : 0);
                    partials[k] = a.op.Combine(partials[k], a.op.Make(values[k], place));
                }
            }
        }
        if (results == 1) {
#pragma unroll
            for (int k = 1; k < kLength; ++k) {
                partials[0] = a.op.Combine(partials[0], partials[k]);
            }
        }
#pragma unroll
        for (int k = 0; k < kLength; ++k) {
            if (k < results) {
                parts[k][y * shape.lanes_x + x] = partials[k];
            }
        }
        FoldTables<kLength>(a.op, parts, results, shape.lanes_x, shape.lanes_y, x, y);
        for (int k = 0; y == 0 && kept < shape.num_kept && k < results; ++k) {
            const int64_t result = kept * results + k;
            if (shape.splits > 1) {
                a.partials[static_cast<int64_t>(blockIdx.y) * shape.num_kept * results + result] = parts[k][x];
            } else {
                StoreResult(a.op, a.output, a.output_dtype, result, parts[k][x]);
            }
        }
        __syncthreads();  // before the next tile overwrites the tables
    }
}

template <typename Op>
__global__ void __launch_bounds__(kBlock)
    CombineSplitsKernel(const typename Op::Partial *partials, int splits, int64_t num_results, void *output,
                        DataType dtype, int lanes_x, Op op) {
    using Partial = typename Op::Partial;
    __shared__ Partial parts[1][kBlock];
    const int x = static_cast<int>(threadIdx.x) % lanes_x;
    const int y = static_cast<int>(threadIdx.x) / lanes_x;
    const int lanes_y = kBlock / lanes_x;
    const int64_t tiles = (num_results + lanes_x - 1) / lanes_x;
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int64_t result = tile * lanes_x + x;
        Partial partial = Op::Identity();
        for (int64_t split = y; split < splits && result < num_results; split += lanes_y) {
            partial = op.Combine(partial, partials[split * num_results + result]);
        }
        parts[0][threadIdx.x] = partial;
        FoldTables<1>(op, parts, 1, lanes_x, lanes_y, x, y);
        if (y == 0 && result < num_results) {
            StoreResult(op, output, dtype, result, parts[0][x]);
        }
        __syncthreads();  // before the next tile overwrites the table
    }
}

/// The loops over what is kept (operand 0: the input) and over what is reduced.
struct ReductionLoops {
    StridedLoop kept, reduced;
    bool kept_is_fast;  ///< neighbours in memory belong to different results
};
ReductionLoops LoopsOf(const TensorRef &output, const ConstTensorRef &input);
ReductionShape ShapeOf(const ReductionLoops &loops);
/// Makes the loops count groups of `length` elements, if those are adjacent and aligned.
bool CountGroups(const ConstTensorRef &input, int length, ReductionLoops *loops);
/// Results side by side in a block that combines the parts of `num_results`.
int CombineLanes(int64_t num_results);

template <typename Op>
void RunReduction(const char *name, const TensorRef &output, const ConstTensorRef &input, const Op &op) {
    if (output.num_elements == 0) {
        return;
    }
    constexpr int kLength = kGroupLength<typename Op::Element>;
    ReductionLoops loops = LoopsOf(output, input);
    // Few instances: groups in 32 bits only.
    const bool is_small = loops.kept.IsSmall() && loops.reduced.IsSmall();
    const bool is_grouped =
        is_small && kLength > 1 && HasGroups<typename Op::Element>(input.dtype) && CountGroups(input, kLength, &loops);
    const ReductionShape shape = ShapeOf(loops);
    const int64_t num_partials = shape.splits > 1 ? shape.splits * output.num_elements : 0;
    const Scratch scratch(static_cast<size_t>(num_partials) * sizeof(typename Op::Partial));
    const auto run = [&]<typename Index, int kElements>(Index, std::integral_constant<int, kElements>) {
        const ReductionArguments<Op, Index> arguments{input.data,
                                                      input.dtype,
                                                      output.data,
                                                      output.dtype,
                                                      scratch.As<typename Op::Partial>(),
                                                      Offsets<1, Index>(loops.kept),
                                                      Offsets<1, Index>(loops.reduced),
                                                      shape,
                                                      shape.PerSplit(),
                                                      op};
        const dim3 grid(GridFor(shape.num_kept, shape.lanes_x), static_cast<unsigned>(shape.splits));
        Launch(name, {grid}, ReduceKernel<Op, Index, kElements>, arguments);
    };
    if (is_grouped) {
        run(uint32_t{}, std::integral_constant<int, kLength>{});
    } else if (is_small) {
        run(uint32_t{}, std::integral_constant<int, 1>{});
    } else {
        run(uint64_t{}, std::integral_constant<int, 1>{});
    }
    if (shape.splits > 1) {
        const int lanes_x = CombineLanes(output.num_elements);
        Launch(name, {GridFor(output.num_elements, lanes_x)}, CombineSplitsKernel<Op>,
               scratch.As<typename Op::Partial>(), shape.splits, output.num_elements, output.data, output.dtype,
               lanes_x, op);
    }
}

/// The kernels of the tags ReduceArgmax and ReduceArgmin (reduction_position.cu).
void RunArgmax(TensorRef output, ConstTensorRef input, int dim);
void RunArgmin(TensorRef output, ConstTensorRef input, int dim);

}  // namespace infini_train::cuda
