// Correct kernels of the kinds that a checker might suspect: blocks and memory.

#include <algorithm>
#include <cstdint>
#include <numeric>

#include <cuda_pipeline_primitives.h>

#include "infini_train/src/kernels/cuda/launch.cuh"
#include "infini_train/src/kernels/cuda/reduce.cuh"
#include "test/cuda_emulation/faults/buffer.h"
#include "test/cuda_emulation/faults/fault.h"

namespace infini_train::test {
namespace {

using cuda::kBlock;
using cuda::Launch;

std::vector<int> Iota(int count) {
    std::vector<int> values(static_cast<size_t>(count));
    std::iota(values.begin(), values.end(), 0);
    return values;
}

// Two buffers and one barrier a round: nobody is more than a round ahead.
__global__ void __launch_bounds__(kBlock) DoubleBuffered(int *output, int rounds) {
    __shared__ int values[2][kBlock];
    int sum = 0;
    for (int round = 0; round < rounds; ++round) {
        int *const now = values[round % 2];
        now[threadIdx.x] = round + static_cast<int>(threadIdx.x);
        __syncthreads();
        sum += now[(threadIdx.x + 40) % kBlock];
    }
    output[threadIdx.x] = sum;
}
bool RunDoubleBuffered() {
    const Buffer<int> output(kBlock);
    Launch("correct", {1}, DoubleBuffered, output.data(), 5);
    const auto values = output.Values();
    for (int i = 0; i < kBlock; ++i) {
        if (values[static_cast<size_t>(i)] != 10 + 5 * ((i + 40) % kBlock)) {
            return false;
        }
    }
    return true;
}

// Half of the warps fill what the other half reads.
__global__ void __launch_bounds__(kBlock) WarpSpecialised(int *output, const int *input, int rounds) {
    constexpr int kHalf = kBlock / 2;
    __shared__ int values[kHalf];
    const int i = static_cast<int>(threadIdx.x) % kHalf;
    const bool fills = threadIdx.x < kHalf;
    int sum = 0;
    for (int round = 0; round < rounds; ++round) {
        if (fills) {
            values[i] = input[round * kHalf + i];
        }
        __syncthreads();
        if (!fills) {
            sum += values[kHalf - 1 - i];
        }
        __syncthreads();
    }
    if (!fills) {
        output[i] = sum;
    }
}
bool RunWarpSpecialised() {
    const Buffer<int> input(Iota(3 * kBlock / 2)), output(kBlock / 2);
    Launch("correct", {1}, WarpSpecialised, output.data(), input.data(), 3);
    return output.Values()[0] == 127 + (127 + 128) + (127 + 256);
}

// The last block to finish adds up what all have left.
__global__ void __launch_bounds__(kBlock) LastBlockAddsUp(int *output, const int *input, int *sums, int *counter) {
    __shared__ bool is_last;
    const int sum = cuda::BlockReduce(input[cuda::GridIndex()], cuda::SumOp(), 0);
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = sum;
        __threadfence();
        is_last = atomicAdd(counter, 1) == static_cast<int>(gridDim.x) - 1;
    }
    __syncthreads();
    if (is_last) {
        const int of_block = threadIdx.x < gridDim.x ? sums[threadIdx.x] : 0;
        const int total = cuda::BlockReduce(of_block, cuda::SumOp(), 0);
        if (threadIdx.x == 0) {
            *output = total;
        }
    }
}
bool RunLastBlockAddsUp() {
    const Buffer<int> input(Iota(7 * kBlock)), output(1), sums(7), counter(std::vector<int>{0});
    Launch("correct", {7}, LastBlockAddsUp, output.data(), input.data(), sums.data(), counter.data());
    return output.Values()[0] == 7 * kBlock * (7 * kBlock - 1) / 2;
}

// All threads write and fence, and one counts after the barrier.
__global__ void __launch_bounds__(kBlock) AllThreadsFence(int *output, int *values, int *counter) {
    __shared__ bool is_last;
    values[cuda::GridIndex()] = static_cast<int>(threadIdx.x);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        is_last = atomicAdd(counter, 1) == static_cast<int>(gridDim.x) - 1;
    }
    __syncthreads();
    if (is_last) {
        for (unsigned i = 0; i < gridDim.x; ++i) {
            output[i * kBlock + threadIdx.x] = values[i * kBlock + (threadIdx.x ^ 64)];
        }
    }
}
bool RunAllThreadsFence() {
    const Buffer<int> output(4 * kBlock), values(4 * kBlock), counter(std::vector<int>{0});
    Launch("correct", {4}, AllThreadsFence, output.data(), values.data(), counter.data());
    return output.Values()[kBlock + 1] == 65;
}

__global__ void __launch_bounds__(kBlock) Histogram(int *bins, const int *input, int count) {
    __shared__ int mine[16];
    if (threadIdx.x < 16) {
        mine[threadIdx.x] = 0;
    }
    __syncthreads();
    for (int64_t i = cuda::GridIndex(); i < count; i += cuda::GridStep()) {
        atomicAdd(&mine[input[i] % 16], 1);
    }
    __syncthreads();
    if (threadIdx.x < 16) {
        atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
    }
}
bool RunHistogram() {
    const Buffer<int> input(Iota(5000)), bins(std::vector<int>(16));
    Launch("correct", {3}, Histogram, bins.data(), input.data(), 5000);
    return bins.Values()[0] == 313 && bins.Values()[15] == 312;
}

__global__ void __launch_bounds__(kBlock) GridStride(float *output, const float *input, int count) {
    for (int64_t i = cuda::GridIndex(); i < count; i += cuda::GridStep()) {
        output[i] = 2 * input[i];
    }
}
bool RunGridStride() {
    const Buffer<float> input(std::vector<float>(10001, 3.0F)), output(10001);
    Launch("correct", {5}, GridStride, output.data(), input.data(), 10001);
    const auto values = output.Values();
    return std::all_of(values.begin(), values.end(), [](float value) { return value == 6; });
}

// Tiles of the next round are on their way while this round's are read.
__global__ void __launch_bounds__(kBlock) AsyncPipeline(int *output, const int *input, int rounds) {
    __shared__ int tiles[2][kBlock];
    __pipeline_memcpy_async(&tiles[0][threadIdx.x], &input[threadIdx.x], sizeof(int));
    __pipeline_commit();
    int sum = 0;
    for (int round = 0; round < rounds; ++round) {
        if (round + 1 < rounds) {
            __pipeline_memcpy_async(&tiles[(round + 1) % 2][threadIdx.x], &input[(round + 1) * kBlock + threadIdx.x],
                                    sizeof(int));
        }
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        sum += tiles[round % 2][kBlock - 1 - threadIdx.x];
        __syncthreads();
    }
    output[threadIdx.x] = sum;
}
bool RunAsyncPipeline() {
    const Buffer<int> input(Iota(4 * kBlock)), output(kBlock);
    Launch("correct", {1}, AsyncPipeline, output.data(), input.data(), 4);
    return output.Values()[0] == 4 * 255 + 6 * kBlock;
}

__global__ void __launch_bounds__(kBlock) TransposesTile(int *output, const int *input) {
    __shared__ int tile[16][17];
    const unsigned x = threadIdx.x % 16, y = threadIdx.x / 16;
    tile[y][x] = input[y * 16 + x];
    __syncthreads();
    output[y * 16 + x] = tile[x][y];
}
bool RunTransposesTile() {
    const Buffer<int> input(Iota(256)), output(256);
    Launch("correct", {1}, TransposesTile, output.data(), input.data());
    return output.Values()[1] == 16 && output.Values()[16] == 1;
}

// Neighbours write neighbouring bytes of a word; then words are read, written, and read as bytes again.
__global__ void __launch_bounds__(kBlock) BytesAndWords(uint8_t *bytes, uint32_t *sums) {
    bytes[threadIdx.x] = static_cast<uint8_t>(threadIdx.x);
    __syncthreads();
    auto *const words = reinterpret_cast<uint32_t *>(bytes);
    if (threadIdx.x < kBlock / 4) {
        words[threadIdx.x] += 1;
    }
    __syncthreads();
    sums[threadIdx.x] = bytes[threadIdx.x ^ 1];
}
bool RunBytesAndWords() {
    const Buffer<uint8_t> bytes(kBlock);
    const Buffer<uint32_t> sums(kBlock);
    Launch("correct", {1}, BytesAndWords, bytes.data(), sums.data());
    return sums.Values()[1] == 1 && sums.Values()[2] == 3;
}

__global__ void __launch_bounds__(kBlock) HasLargeSharedMemory(int *output, int length) {
    auto *const values = reinterpret_cast<int *>(dynamic_shared);
    for (int i = static_cast<int>(threadIdx.x); i < length; i += kBlock) {
        values[i] = i;
    }
    __syncthreads();
    output[threadIdx.x] = values[length - 1 - static_cast<int>(threadIdx.x)];
}
bool RunHasLargeSharedMemory() {
    const Buffer<int> output(kBlock);
    Launch("correct", {1, kBlock, 100 * 1024}, HasLargeSharedMemory, output.data(), 25 * 1024);
    return output.Values()[0] == 25 * 1024 - 1;
}

// A block's threads read one element, and one of them changes it after a barrier.
__global__ void __launch_bounds__(kBlock) AllReadOneWrites(int *output, int *value) {
    const int before = *value;
    __syncthreads();
    if (threadIdx.x == 77) {
        *value = before + 1;
    }
    __syncthreads();
    output[threadIdx.x] = *value;
}
bool RunAllReadOneWrites() {
    const Buffer<int> output(kBlock), value(std::vector<int>{5});
    Launch("correct", {1}, AllReadOneWrites, output.data(), value.data());
    return output.Values()[0] == 6;
}

__global__ void __launch_bounds__(kBlock) CountsInBarrier(int *output) {
    const int count = __syncthreads_count(threadIdx.x % 3 == 0);
    const int any = __syncthreads_or(threadIdx.x == 200), all = __syncthreads_and(threadIdx.x < 255);
    output[threadIdx.x] = count * 100 + any * 10 + all;
}
bool RunCountsInBarrier() {
    const Buffer<int> output(kBlock);
    Launch("correct", {1}, CountsInBarrier, output.data());
    return output.Values()[9] == 8610;
}

// A maximum by compare-and-swap: the reads in the loop are atomic operations' results.
__global__ void __launch_bounds__(kBlock) SwapsMaximum(unsigned *maximum) {
    const auto mine = static_cast<unsigned>(cuda::GridIndex() * 7919 % 1000);
    unsigned seen = atomicAdd(maximum, 0U);
    while (seen < mine) {
        const unsigned before = atomicCAS(maximum, seen, mine);
        if (before == seen) {
            break;
        }
        seen = before;
    }
}
bool RunSwapsMaximum() {
    const Buffer<unsigned> maximum(std::vector<unsigned>{0});
    Launch("correct", {4}, SwapsMaximum, maximum.data());
    return maximum.Values()[0] == 999;
}

}  // namespace

std::vector<Correct> CorrectKernels() {
    return {
        {"DoubleBuffered", &RunDoubleBuffered},
        {"WarpSpecialised", &RunWarpSpecialised},
        {"LastBlockAddsUp", &RunLastBlockAddsUp},
        {"AllThreadsFence", &RunAllThreadsFence},
        {"Histogram", &RunHistogram},
        {"GridStride", &RunGridStride},
        {"AsyncPipeline", &RunAsyncPipeline},
        {"TransposesTile", &RunTransposesTile},
        {"BytesAndWords", &RunBytesAndWords},
        {"HasLargeSharedMemory", &RunHasLargeSharedMemory},
        {"AllReadOneWrites", &RunAllReadOneWrites},
        {"CountsInBarrier", &RunCountsInBarrier},
        {"SwapsMaximum", &RunSwapsMaximum},
    };
}

}  // namespace infini_train::test
