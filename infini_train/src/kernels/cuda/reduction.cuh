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

template <typename Op, typename Index>
__global__ void __launch_bounds__(kBlock) ReduceKernel(ReductionArguments<Op, Index> a) {
    using Partial = typename Op::Partial;
    __shared__ Partial parts[kBlock];
    const auto thread = static_cast<int>(threadIdx.x);
    const ReductionShape &shape = a.shape;
    const int x = shape.kept_is_fast ? thread % shape.lanes_x : thread / shape.lanes_y;
    const int y = shape.kept_is_fast ? thread / shape.lanes_x : thread % shape.lanes_y;
    const int64_t begin = static_cast<int64_t>(blockIdx.y) * a.per_split;
    const int64_t end = begin + a.per_split < shape.num_reduced ? begin + a.per_split : shape.num_reduced;
    const int64_t tiles = (shape.num_kept + shape.lanes_x - 1) / shape.lanes_x;
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int64_t kept = tile * shape.lanes_x + x;
        Partial partial = Op::Identity();
        if (kept < shape.num_kept) {
            const int64_t base = a.kept.At(static_cast<Index>(kept))[0];
            for (int64_t r = begin + y; r < end; r += shape.lanes_y) {
                typename Op::Element value[1];
                LoadGroup(a.input, a.input_dtype, base + a.reduced.At(static_cast<Index>(r))[0], value);
                partial = a.op.Combine(partial, a.op.Make(value[0], r));
            }
        }
        parts[y * shape.lanes_x + x] = partial;
        for (int step = shape.lanes_y / 2; step > 0; step /= 2) {
            __syncthreads();
            if (y < step) {
                parts[y * shape.lanes_x + x] =
                    a.op.Combine(parts[y * shape.lanes_x + x], parts[(y + step) * shape.lanes_x + x]);
            }
        }
        if (y == 0 && kept < shape.num_kept) {
            if (shape.splits > 1) {
                a.partials[static_cast<int64_t>(blockIdx.y) * shape.num_kept + kept] = parts[x];
            } else {
                StoreResult(a.op, a.output, a.output_dtype, kept, parts[x]);
            }
        }
        __syncthreads();  // before the next tile overwrites the table
    }
}

template <typename Op>
__global__ void __launch_bounds__(kBlock) CombineSplitsKernel(const typename Op::Partial *partials, int splits,
                                                              int64_t num_kept, void *output, DataType dtype, Op op) {
    for (int64_t kept = GridIndex(); kept < num_kept; kept += GridStep()) {
        typename Op::Partial partial = partials[kept];
        for (int split = 1; split < splits; ++split) {
            partial = op.Combine(partial, partials[split * num_kept + kept]);
        }
        StoreResult(op, output, dtype, kept, partial);
    }
}

/// The loops over what is kept (operand 0: the input) and over what is reduced.
struct ReductionLoops {
    StridedLoop kept, reduced;
};
ReductionLoops LoopsOf(const TensorRef &output, const ConstTensorRef &input);
ReductionShape ShapeOf(const ReductionLoops &loops);

template <typename Op>
void RunReduction(const char *name, const TensorRef &output, const ConstTensorRef &input, const Op &op) {
    if (output.num_elements == 0) {
        return;
    }
    const ReductionLoops loops = LoopsOf(output, input);
    const ReductionShape shape = ShapeOf(loops);
    const int64_t partials = shape.splits > 1 ? shape.splits * shape.num_kept : 0;
    const Scratch scratch(static_cast<size_t>(partials) * sizeof(typename Op::Partial));
    const auto run = [&]<typename Index>(Index) {
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
        Launch(name, {grid}, ReduceKernel<Op, Index>, arguments);
    };
    if (loops.kept.IsSmall() && loops.reduced.IsSmall()) {
        run(uint32_t{});
    } else {
        run(uint64_t{});
    }
    if (shape.splits > 1) {
        Launch(name, {GridFor(shape.num_kept)}, CombineSplitsKernel<Op>, scratch.As<typename Op::Partial>(),
               shape.splits, shape.num_kept, output.data, output.dtype, op);
    }
}

}  // namespace infini_train::cuda
