// Correct kernels of the kinds that a checker might suspect: lanes of a warp.

#include <mma.h>

#include "infini_train/src/kernels/cuda/launch.cuh"
#include "test/cuda_emulation/faults/buffer.h"
#include "test/cuda_emulation/faults/fault.h"

namespace infini_train::test {
namespace {

using cuda::kBlock;
using cuda::kWarp;
using cuda::Launch;

constexpr unsigned kAll = 0xffffffffU;

// The two halves of a warp do different things, each with its own mask.
__global__ void __launch_bounds__(kBlock) HalvesApart(int *output) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    int value = lane;
    if (lane < 16) {
        for (int step = 8; step > 0; step /= 2) {
            value += __shfl_xor_sync(0x0000ffffU, value, step);
        }
    } else {
        value = __popc(__ballot_sync(0xffff0000U, lane % 2 == 0));
        __syncwarp(0xffff0000U);
    }
    output[threadIdx.x] = value;
}
bool RunHalvesApart() {
    const Buffer<int> output(kBlock);
    Launch("correct", {1}, HalvesApart, output.data());
    const auto values = output.Values();
    return values[3] == 120 && values[20] == 8;
}

__global__ void __launch_bounds__(kBlock) PartialWarp(int *output, int count) {
    const unsigned mask = __ballot_sync(kAll, static_cast<int>(threadIdx.x) < count);
    if (static_cast<int>(threadIdx.x) < count) {
        output[threadIdx.x] = __shfl_sync(mask, static_cast<int>(threadIdx.x), 0) + __popc(mask);
    }
}
bool RunPartialWarp() {
    const Buffer<int> output(std::vector<int>(kWarp, -1));
    Launch("correct", {1, kWarp}, PartialWarp, output.data(), 20);
    return output.Values()[19] == 20 && output.Values()[20] == -1;
}

__global__ void __launch_bounds__(kBlock) ShufflesOfWidthEight(int *output) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int up = __shfl_up_sync(kAll, lane, 3, 8), down = __shfl_down_sync(kAll, lane, 3, 8);
    const int all = __shfl_sync(kAll, lane, 5, 8), other = __shfl_xor_sync(kAll, lane, 4, 8);
    output[threadIdx.x] = up * 1000000 + down * 10000 + all * 100 + other;
}
bool RunShufflesOfWidthEight() {
    const Buffer<int> output(kWarp);
    Launch("correct", {1, kWarp}, ShufflesOfWidthEight, output.data());
    const auto values = output.Values();
    return values[9] == 9 * 1000000 + 12 * 10000 + 13 * 100 + 13 &&
           values[15] == 12 * 1000000 + 15 * 10000 + 13 * 100 + 11;
}

// Lanes hand over shared memory by __syncwarp alone, and one lane reads before it writes the same word.
__global__ void __launch_bounds__(kBlock) LanesHandOver(int *output) {
    __shared__ int values[kBlock / kWarp][kWarp];
    const unsigned lane = threadIdx.x % kWarp;
    int *const mine = values[threadIdx.x / kWarp];
    mine[lane] = static_cast<int>(lane);
    __syncwarp();
    const int next = mine[(lane + 1) % kWarp];
    __syncwarp();
    mine[lane] += next;
    __syncwarp();
    output[threadIdx.x] = mine[lane ^ 1];
}
bool RunLanesHandOver() {
    const Buffer<int> output(kBlock);
    Launch("correct", {1}, LanesHandOver, output.data());
    return output.Values()[0] == 3 && output.Values()[33] == 1;
}

// One lane reads, then another; the latter may write afterwards without a barrier between.
__global__ void __launch_bounds__(kBlock) ReadersInTurn(int *output) {
    __shared__ int value;
    const unsigned lane = threadIdx.x;
    int seen = 0;
    if (lane == 0) {
        value = 5;
    }
    __syncwarp();
    if (lane == 3) {
        seen = value;
    }
    __syncwarp();
    if (lane == 7) {
        seen = value;
        value = seen + 1;
    }
    __syncwarp();
    output[lane] = seen + value;
}
bool RunReadersInTurn() {
    const Buffer<int> output(kWarp);
    Launch("correct", {1, kWarp}, ReadersInTurn, output.data());
    const auto values = output.Values();
    return values[0] == 6 && values[3] == 11 && values[7] == 11;
}

// One atomic operation for all lanes with the same key.
__global__ void __launch_bounds__(kBlock) AggregatesAtomics(int *counts) {
    const int key = static_cast<int>(threadIdx.x) % 5;
    const unsigned same = __match_any_sync(kAll, key);
    if (static_cast<int>(threadIdx.x) % kWarp == __ffs(static_cast<int>(same)) - 1) {
        atomicAdd(&counts[key], __popc(same));
    }
}
bool RunAggregatesAtomics() {
    const Buffer<int> counts(std::vector<int>(5));
    Launch("correct", {2}, AggregatesAtomics, counts.data());
    return counts.Values() == std::vector<int>{104, 102, 102, 102, 102};
}

__global__ void __launch_bounds__(kBlock)
    MultipliesTiles(float *output, const __nv_bfloat16 *a, const __nv_bfloat16 *b) {
    using namespace nvcuda::wmma;  // NOLINT(google-build-using-namespace)
    __shared__ __align__(32) __nv_bfloat16 tile[256];
    for (int i = static_cast<int>(threadIdx.x); i < 256; i += kWarp) {
        tile[i] = b[i];
    }
    __syncwarp();
    fragment<matrix_a, 16, 16, 16, __nv_bfloat16, row_major> left;
    fragment<matrix_b, 16, 16, 16, __nv_bfloat16, col_major> right;
    fragment<accumulator, 16, 16, 16, float> sum;
    fill_fragment(sum, 0.0F);
    load_matrix_sync(left, a, 16);
    load_matrix_sync(right, tile, 16);
    mma_sync(sum, left, right, sum);
    store_matrix_sync(output, sum, 16, mem_row_major);
}
bool RunMultipliesTiles() {
    std::vector<__nv_bfloat16> a, b;
    for (int i = 0; i < 256; ++i) {
        a.push_back(__float2bfloat16(static_cast<float>(i % 7)));
        b.push_back(__float2bfloat16(static_cast<float>(i % 5)));
    }
    const Buffer<__nv_bfloat16> left(a), right(b);
    const Buffer<float> output(256);
    Launch("correct", {1, kWarp}, MultipliesTiles, output.data(), left.data(), right.data());
    const auto values = output.Values();
    for (int row = 0; row < 16; ++row) {
        for (int column = 0; column < 16; ++column) {
            float expected = 0;
            for (int k = 0; k < 16; ++k) {
                expected += static_cast<float>((row * 16 + k) % 7 * ((column * 16 + k) % 5));
            }
            if (values[static_cast<size_t>(row * 16 + column)] != expected) {
                return false;
            }
        }
    }
    return true;
}

__global__ void __launch_bounds__(kBlock) ReducesInOneStep(unsigned *output) {
    const unsigned lane = threadIdx.x;
    output[lane] = __reduce_add_sync(kAll, lane) + __reduce_max_sync(kAll, lane) * 1000 +
                   __reduce_min_sync(kAll, lane + 1) * 100000;
}
bool RunReducesInOneStep() {
    const Buffer<unsigned> output(kWarp);
    Launch("correct", {1, kWarp}, ReducesInOneStep, output.data());
    return output.Values()[4] == 496 + 31000 + 100000;
}

}  // namespace

std::vector<Correct> CorrectWarpKernels() {
    return {
        {"HalvesApart", &RunHalvesApart},
        {"PartialWarp", &RunPartialWarp},
        {"ShufflesOfWidthEight", &RunShufflesOfWidthEight},
        {"LanesHandOver", &RunLanesHandOver},
        {"ReadersInTurn", &RunReadersInTurn},
        {"AggregatesAtomics", &RunAggregatesAtomics},
        {"MultipliesTiles", &RunMultipliesTiles},
        {"ReducesInOneStep", &RunReducesInOneStep},
    };
}

}  // namespace infini_train::test
