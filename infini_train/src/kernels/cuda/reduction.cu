// Sums and extremes; positions are registered here, too.

#include <bit>
#include <cstdlib>
#include <vector>

#include "infini_train/src/kernels/cuda/elementwise.cuh"
#include "infini_train/src/kernels/cuda/reduction.cuh"
#include "infini_train/src/kernels/matmul.h"
#include "infini_train/src/kernels/reduction.h"
#include "infini_train/src/kernels/registry.h"

namespace infini_train::cuda {

ReductionLoops LoopsOf(const TensorRef &output, const ConstTensorRef &input) {
    struct Dims {
        std::vector<int64_t> sizes, strides;
        StridedLoop Loop() const {
            // A loop over nothing has no dims, of which offsets are made.
            const bool is_empty = std::find(sizes.begin(), sizes.end(), 0) != sizes.end();
            if (is_empty) {
                StridedLoop nothing({}, {{{}, nullptr}});
                nothing.num_elements = 0;
                return nothing;
            }
            return {sizes, {{sizes, strides.data()}}};
        }
    } kept, reduced;
    for (int d = 0; d < input.ndim; ++d) {
        Dims &dims = output.dims[d] == 1 && input.dims[d] != 1 ? reduced : kept;
        dims.sizes.push_back(input.dims[d]);
        dims.strides.push_back(input.strides[d]);
    }
    const auto innermost = [](const StridedLoop &loop) {
        return loop.ndim == 0 ? std::numeric_limits<int64_t>::max() : std::abs(loop.strides[0][loop.ndim - 1]);
    };
    ReductionLoops loops{kept.Loop(), reduced.Loop(), false};
    loops.kept_is_fast = innermost(loops.kept) < innermost(loops.reduced);
    return loops;
}

bool CountGroups(const ConstTensorRef &input, int length, ReductionLoops *loops) {
    const bool kept_is_fast = loops->kept_is_fast;
    StridedLoop &fast = kept_is_fast ? loops->kept : loops->reduced;
    const StridedLoop &slow = kept_is_fast ? loops->reduced : loops->kept;
    // Side by side, fewer groups than a warp's threads would leave some without work.
    const int64_t fewest = kept_is_fast ? kWarp : 1;
    if (fast.ndim == 0 || fast.num_elements < fewest * length || fast.dims[fast.ndim - 1] % length != 0 ||
        !internal::IsGrouped(fast, 0, input.data, input.dtype, length)) {
        return false;
    }
    const auto size = static_cast<int64_t>(SizeOf(input.dtype));
    for (int d = 0; d < slow.ndim; ++d) {
        if (slow.strides[0][d] * size % std::min<int64_t>(16, size * length) != 0) {
            return false;
        }
    }
    const int inner = fast.ndim - 1;
    fast.dims[inner] /= length;
    fast.strides[0][inner] *= length;
    fast.num_elements /= length;
    return true;
}

int CombineLanes(int64_t num_results) {
    return static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::min<int64_t>(num_results, kWarp))));
}

ReductionShape ShapeOf(const ReductionLoops &loops) {
    // A thread that has less to do than this waits for the others longer than it works.
    constexpr int64_t kPerThread = 4;
    ReductionShape shape;
    shape.num_kept = loops.kept.num_elements;
    shape.num_reduced = loops.reduced.num_elements;
    shape.kept_is_fast = loops.kept_is_fast;
    const auto wanted = static_cast<uint64_t>(std::clamp<int64_t>(shape.num_reduced / kPerThread, 1, kBlock));
    const int most = shape.kept_is_fast ? kBlock / CombineLanes(shape.num_kept) : kBlock;
    shape.lanes_y = std::min(most, static_cast<int>(std::bit_floor(wanted)));
    shape.lanes_x = kBlock / shape.lanes_y;
    // Two blocks for each place that a multiprocessor has for one.
    const int64_t tiles = (shape.num_kept + shape.lanes_x - 1) / shape.lanes_x;
    const int64_t places = int64_t{NumMultiprocessors()} * 16;
    const int64_t worthwhile = shape.num_reduced / (int64_t{shape.lanes_y} * 4 * kPerThread);
    shape.splits =
        static_cast<int>(std::clamp<int64_t>(std::min(places / std::max<int64_t>(tiles, 1), worthwhile), 1, 2048));
    // None may be without work.
    shape.splits = static_cast<int>(
        std::max<int64_t>(1, (shape.num_reduced + shape.PerSplit() - 1) / std::max<int64_t>(shape.PerSplit(), 1)));
    return shape;
}

namespace {

void RunSum(TensorRef output, ConstTensorRef input, double divisor) {
    if (input.dtype == DataType::kFLOAT64) {
        RunReduction("ReduceSum", output, input, SumReduction<double>{divisor});
    } else if (IsFloatingPoint(input.dtype)) {
        RunReduction("ReduceSum", output, input, SumReduction<float>{divisor});
    } else {
        RunReduction("ReduceSum", output, input, SumReduction<int64_t>{});
    }
}

template <bool kMax>
void RunExtreme(TensorRef output, ConstTensorRef input) {
    VisitWide(input.dtype, [&]<typename C>(std::type_identity<C>) {
        RunReduction(kMax ? "ReduceMax" : "ReduceMin", output, input, ExtremeReduction<C, kMax>());
    });
}

// input (outer, channels, inner), contiguous.
void RunChannelSum(TensorRef output, ConstTensorRef input, int64_t outer, int64_t inner) {
    const int64_t channels = output.num_elements;
    const int64_t dims[3] = {outer, channels, inner}, strides[3] = {channels * inner, inner, 1};
    const int64_t sums[3] = {1, channels, 1}, sum_strides[3] = {channels, 1, 1};
    const ConstTensorRef planes{input.data, dims, strides, 3, input.dtype, outer * channels * inner, true};
    const TensorRef totals{output.data, sums, sum_strides, 3, output.dtype, channels, true};
    RunSum(totals, planes, 1.0);
}

}  // namespace
}  // namespace infini_train::cuda

namespace infini_train::kernels {

void RegisterReductionCuda() {
    RegisterKernel<ReduceSum>(DeviceType::kCUDA, &cuda::RunSum);
    RegisterKernel<ReduceMax>(DeviceType::kCUDA, &cuda::RunExtreme<true>);
    RegisterKernel<ReduceMin>(DeviceType::kCUDA, &cuda::RunExtreme<false>);
    RegisterKernel<ReduceArgmax>(DeviceType::kCUDA, &cuda::RunArgmax);
    RegisterKernel<ReduceArgmin>(DeviceType::kCUDA, &cuda::RunArgmin);
}

void RegisterChannelSumCuda() {
    RegisterKernel<ChannelSum>(DeviceType::kCUDA, &cuda::RunChannelSum);
}

}  // namespace infini_train::kernels
