// Moments and histograms of tensors. The number of blocks depends on that of the elements alone, and with it every sum.

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "infini_train/src/kernels/cuda/convert.cuh"
#include "infini_train/src/kernels/cuda/reduce.cuh"
#include "infini_train/src/kernels/cuda/scratch.cuh"
#include "infini_train/src/kernels/cuda/strides.cuh"
#include "infini_train/src/kernels/registry.h"
#include "infini_train/src/kernels/statistics.h"

namespace infini_train::cuda {
namespace {

using kernels::kHistogramBins;
using kernels::Moments;

constexpr int kWarps = kBlock / kWarp;
// Fills today's largest devices; the host adds up as many partial results.
constexpr int64_t kMaxBlocks = 1024;
constexpr int64_t kGroupsPerThread = 4;

template <typename C>
struct StatisticsArguments {
    const void *input;
    DataType dtype;
    uint32_t num_elements;
    bool is_grouped;  // groups of kGroupLength<C> are adjacent and aligned
    Moments *partials;
    unsigned long long *bins;  // null: not wanted
};

template <typename C>
__device__ __forceinline__ bool IsFinite(C value) {
    return value - value == C{0};
}

__device__ __forceinline__ uint32_t Bin(float value) {
    return __float_as_uint(value) >> kernels::kHistogramShift;
}
__device__ __forceinline__ uint32_t Bin(double value) {
    constexpr double kMost = std::numeric_limits<float>::max();
    const double clamped = value > kMost ? kMost : value < -kMost ? -kMost : value;
    return Bin(static_cast<float>(IsFinite(value) ? clamped : value));
}

__device__ __forceinline__ void TakeInOne(double value, Moments *total) {
    Moments one;
    one.finite = 1;
    one.mean = one.min = one.max = value;
    total->Add(one);
}

/// The first `count` values, in double, where squares of floats don't overflow.
template <typename C, int kLength>
__device__ __forceinline__ void TakeIn(const C (&values)[kLength], int count, Moments *total) {
    Moments group;
    double sum = 0;
#pragma unroll
    for (int k = 0; k < kLength; ++k) {
        const auto value = static_cast<double>(values[k]);
        const bool is_finite = IsFinite(value);
        if (k < count && is_finite) {
            sum += value;
            ++group.finite;
            group.zeros += value == 0 ? 1 : 0;
            group.min = value < group.min ? value : group.min;
            group.max = value > group.max ? value : group.max;
        } else if (k < count) {
            ++(value != value ? group.nans : group.infs);
        }
    }
    if (!IsFinite(sum)) {
        // Doubles whose sum overflows.
        for (int k = 0; k < count; ++k) {
            if (IsFinite(values[k])) {
                TakeInOne(static_cast<double>(values[k]), total);
            }
        }
        group.finite = 0;
    } else if (group.finite > 0) {
        const double inverse = 1.0 / static_cast<double>(group.finite);
        const double near_mean = sum * inverse;
        double rest = 0;
        double squares = 0;
#pragma unroll
        for (int k = 0; k < kLength; ++k) {
            const auto value = static_cast<double>(values[k]);
            if (k < count && IsFinite(value)) {
                const double deviation = value - near_mean;
                rest += deviation;
                squares += deviation * deviation;
            }
        }
        // The rounded mean's error is what the deviations from it add up to.
        const double shift = rest * inverse;
        const double corrected = squares - shift * rest;
        group.mean = near_mean + shift;
        group.squares = corrected < 0 ? 0 : corrected;
    }
    total->Add(group);
}

/// Neighbours often fall into the same bin, and are counted at once.
template <typename C, int kLength>
__device__ __forceinline__ void Count(const C (&values)[kLength], int count, uint32_t *table) {
    uint32_t bin = Bin(values[0]);
    uint32_t times = 0;
#pragma unroll
    for (int k = 0; k < kLength; ++k) {
        if (k < count) {
            const uint32_t next = Bin(values[k]);
            if (next != bin) {
                atomicAdd(&table[bin], times);
                bin = next;
                times = 0;
            }
            ++times;
        }
    }
    atomicAdd(&table[bin], times);
}

/// Thread 0 gets the block's result.
__device__ Moments ReduceMoments(Moments total) {
    __shared__ int64_t counts[kWarps][4];
    __shared__ double numbers[kWarps][4];
    const auto from = [](auto value, int step) { return __shfl_xor_sync(0xffffffffU, value, step); };
    for (int step = kWarp / 2; step > 0; step /= 2) {
        Moments other;
        other.finite = from(total.finite, step);
        other.zeros = from(total.zeros, step);
        other.nans = from(total.nans, step);
        other.infs = from(total.infs, step);
        other.mean = from(total.mean, step);
        other.squares = from(total.squares, step);
        other.min = from(total.min, step);
        other.max = from(total.max, step);
        total.Add(other);
    }
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    if (threadIdx.x % kWarp == 0) {
        const int64_t own_counts[4] = {total.finite, total.zeros, total.nans, total.infs};
        const double own_numbers[4] = {total.mean, total.squares, total.min, total.max};
        for (int i = 0; i < 4; ++i) {
            counts[warp][i] = own_counts[i];
            numbers[warp][i] = own_numbers[i];
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < kWarps; ++w) {
            const int64_t *const c = counts[w];
            const double *const n = numbers[w];
            total.Add({c[0], c[1], c[2], c[3], n[0], n[1], n[2], n[3]});
        }
    }
    return total;
}

template <typename C>
__global__ void __launch_bounds__(kBlock)
    StatisticsKernel(StatisticsArguments<C> arguments, Offsets<1, uint32_t> offsets) {
    constexpr int kLength = kGroupLength<C>;
    __shared__ uint32_t table[kHistogramBins];
    const bool counts_bins = arguments.bins != nullptr;
    if (counts_bins) {
        for (auto bin = static_cast<int>(threadIdx.x); bin < kHistogramBins; bin += kBlock) {
            table[bin] = 0;
        }
        __syncthreads();
    }
    Moments total;
    const int64_t num_elements = arguments.num_elements;
    for (int64_t first = GridIndex() * kLength; first < num_elements; first += GridStep() * kLength) {
        const int count = num_elements - first < kLength ? static_cast<int>(num_elements - first) : kLength;
        C values[kLength];
        if (arguments.is_grouped && count == kLength) {
            LoadGroup(arguments.input, arguments.dtype, first, values);
        } else {
            for (int k = 0; k < kLength; ++k) {
                C value[1] = {C{0}};
                if (k < count) {
                    const auto at = offsets.At(static_cast<uint32_t>(first + k));
                    LoadGroup(arguments.input, arguments.dtype, at[0], value);
                }
                values[k] = value[0];
            }
        }
        TakeIn(values, count, &total);
        if (counts_bins) {
            Count(values, count, table);
        }
    }
    total = ReduceMoments(total);
    if (threadIdx.x == 0) {
        arguments.partials[blockIdx.x] = total;
    }
    if (counts_bins) {
        __syncthreads();
        for (auto bin = static_cast<int>(threadIdx.x); bin < kHistogramBins; bin += kBlock) {
            if (table[bin] != 0) {
                atomicAdd(&arguments.bins[bin], static_cast<unsigned long long>(table[bin]));
            }
        }
    }
}

template <typename C>
void RunPiece(const ConstTensorRef &input, const StridedLoop &piece, int64_t begin, unsigned long long *bins,
              Moments *result) {
    constexpr int64_t kPerBlock = int64_t{kBlock} * kGroupLength<C> * kGroupsPerThread;
    const int64_t blocks = std::min(kMaxBlocks, (piece.num_elements + kPerBlock - 1) / kPerBlock);
    const Scratch partials(static_cast<size_t>(blocks) * sizeof(Moments));
    const char *const data = input.Data<char>() + begin * static_cast<int64_t>(SizeOf(input.dtype));
    const StatisticsArguments<C> arguments{data,
                                           input.dtype,
                                           static_cast<uint32_t>(piece.num_elements),
                                           HasGroups<C>(input.dtype) && piece.IsContiguous(0) && IsAligned(data),
                                           partials.As<Moments>(),
                                           bins};
    Launch("Statistics", {static_cast<unsigned>(blocks)}, StatisticsKernel<C>, arguments, Offsets<1, uint32_t>(piece));
    std::vector<Moments> read(static_cast<size_t>(blocks));
    ReadBackBytes(read.data(), partials.data(), read.size() * sizeof(Moments));
    for (const Moments &partial : read) {
        result->Add(partial);
    }
}

void RunStatistics(Moments *result, int64_t *bins, ConstTensorRef input) {
    *result = {};
    if (input.num_elements == 0) {
        return;
    }
    constexpr size_t kBytes = kHistogramBins * sizeof(unsigned long long);
    const Scratch counted(bins != nullptr ? kBytes : 0);
    auto *const device_bins = bins != nullptr ? counted.As<unsigned long long>() : nullptr;
    if (bins != nullptr) {
        CheckCuda(cudaMemsetAsync(device_bins, 0, kBytes, CurrentStream()), "Statistics: cudaMemsetAsync");
    }
    StridedLoop loop(input.Dims(), {{input.Dims(), input.strides}});
    loop.SortByMemory();
    ForEachSmall(loop, [&](const StridedLoop &piece, const int64_t *begin) {
        if (input.dtype != DataType::kFLOAT64 && IsFloatingPoint(input.dtype)) {
            RunPiece<float>(input, piece, begin[0], device_bins, result);
        } else {
            RunPiece<double>(input, piece, begin[0], device_bins, result);
        }
    });
    if (bins != nullptr) {
        std::vector<unsigned long long> read(kHistogramBins);
        ReadBackBytes(read.data(), device_bins, kBytes);
        for (size_t bin = 0; bin < read.size(); ++bin) {
            bins[bin] += static_cast<int64_t>(read[bin]);
        }
    }
}

}  // namespace
}  // namespace infini_train::cuda

namespace infini_train::kernels {

void RegisterStatisticsCuda() {
    RegisterKernel<Statistics>(DeviceType::kCUDA, &cuda::RunStatistics);
}

}  // namespace infini_train::kernels
