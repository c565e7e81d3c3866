// Kernels whose threads touch the same memory without an order between them.

#include <cstdint>

#include <cuda_pipeline_primitives.h>

#include "infini_train/src/kernels/cuda/launch.cuh"
#include "test/cuda_emulation/faults/buffer.h"
#include "test/cuda_emulation/faults/fault.h"

namespace infini_train::test {
namespace {

using cuda::kBlock;
using cuda::kWarp;
using cuda::Launch;
using cuda_emulation::Defect;

__global__ void __launch_bounds__(kBlock) LacksBarrier(int *output) {
    __shared__ int values[kBlock];
    values[threadIdx.x] = static_cast<int>(threadIdx.x);  // fault: LacksBarrier
    output[threadIdx.x] = values[(threadIdx.x + kWarp) % kBlock];
}
void RunLacksBarrier() {
    const Buffer<int> output(kBlock);
    Launch("fault", {1}, LacksBarrier, output.data());
}

// The next round's writes may overtake the last round's reads.
__global__ void __launch_bounds__(kBlock) LacksBarrierInLoop(int *output) {
    __shared__ int values[kBlock];
    int sum = 0;
    for (int round = 0; round < 3; ++round) {
        values[threadIdx.x] = round;  // fault: LacksBarrierInLoop
        __syncthreads();
        sum += values[(threadIdx.x + kWarp) % kBlock];
    }
    output[threadIdx.x] = sum;
}
void RunLacksBarrierInLoop() {
    const Buffer<int> output(kBlock);
    Launch("fault", {1}, LacksBarrierInLoop, output.data());
}

// As if the lanes of a warp ran in step.
__global__ void __launch_bounds__(kBlock) LacksSyncwarp(int *output) {
    __shared__ int values[kWarp];
    values[threadIdx.x] = static_cast<int>(threadIdx.x);  // fault: LacksSyncwarp
    output[threadIdx.x] = values[threadIdx.x ^ 1];
}
void RunLacksSyncwarp() {
    const Buffer<int> output(kWarp);
    Launch("fault", {1, kWarp}, LacksSyncwarp, output.data());
}

// Two warps, for which __syncwarp is too little.
__global__ void __launch_bounds__(kBlock) SyncsWarpForBlock(int *output) {
    __shared__ int values[kBlock];
    values[threadIdx.x] = static_cast<int>(threadIdx.x);  // fault: SyncsWarpForBlock
    __syncwarp();
    output[threadIdx.x] = values[(threadIdx.x + kWarp) % kBlock];
}
void RunSyncsWarpForBlock() {
    const Buffer<int> output(kBlock);
    Launch("fault", {1}, SyncsWarpForBlock, output.data());
}

__global__ void __launch_bounds__(kBlock) WritesOneElement(int *output) {
    output[threadIdx.x / 2] = static_cast<int>(threadIdx.x);  // fault: WritesOneElement
}
void RunWritesOneElement() {
    const Buffer<int> output(kBlock);
    Launch("fault", {1}, WritesOneElement, output.data());
}

__global__ void __launch_bounds__(kBlock) WritesTheSame(int *output) {
    output[0] = 1;  // fault: WritesTheSame
}
void RunWritesTheSame() {
    const Buffer<int> output(1);
    Launch("fault", {1}, WritesTheSame, output.data());
}

__global__ void __launch_bounds__(kBlock) BlocksOverlap(int *output) {
    output[blockIdx.x * (kBlock - 1) + threadIdx.x] = 1;  // fault: BlocksOverlap
}
void RunBlocksOverlap() {
    const Buffer<int> output(2 * kBlock);
    Launch("fault", {2}, BlocksOverlap, output.data());
}

// Reads what another block of the same launch writes.
__global__ void __launch_bounds__(kBlock) ReadsOtherBlock(int *output) {
    output[blockIdx.x * kBlock + threadIdx.x] = 1;  // fault: ReadsOtherBlock
    if (threadIdx.x == 0) {
        output[2 * kBlock + blockIdx.x] = output[(blockIdx.x ^ 1) * kBlock];
    }
}
void RunReadsOtherBlock() {
    const Buffer<int> output(std::vector<int>(2 * kBlock + 2));
    Launch("fault", {2}, ReadsOtherBlock, output.data());
}

// Every block leaves a sum, the last one adds them up.
__device__ __forceinline__ bool IsLast(int *counter) {
    __shared__ bool is_last;
    if (threadIdx.x == 0) {
        is_last = atomicAdd(counter, 1) == static_cast<int>(gridDim.x) - 1;
    }
    __syncthreads();
    return is_last;
}

__global__ void __launch_bounds__(kBlock) LacksFence(int *output, int *sums, int *counter) {
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = 1;
    }
    if (IsLast(counter) && threadIdx.x == 0) {
        for (unsigned i = 0; i < gridDim.x; ++i) {
            output[i] = sums[i];  // fault: LacksFence
        }
    }
}
void RunLacksFence() {
    const Buffer<int> output(4), sums(4), counter(std::vector<int>{0});
    Launch("fault", {4}, LacksFence, output.data(), sums.data(), counter.data());
}

// The fence is there, but the counter may be raised before other threads have written.
__global__ void __launch_bounds__(kBlock) CountsTooEarly(int *output, int *sums, int *counter) {
    sums[blockIdx.x * kBlock + threadIdx.x] = 1;
    __threadfence();
    if (IsLast(counter)) {
        for (unsigned i = 0; i < gridDim.x; ++i) {
            output[i * kBlock + threadIdx.x] = sums[i * kBlock + (threadIdx.x ^ 64)];  // fault: CountsTooEarly
        }
    }
}
void RunCountsTooEarly() {
    const Buffer<int> output(4 * kBlock), sums(4 * kBlock), counter(std::vector<int>{0});
    Launch("fault", {4}, CountsTooEarly, output.data(), sums.data(), counter.data());
}

__global__ void __launch_bounds__(kBlock) MixesAtomicAndPlain(int *counter) {
    if (threadIdx.x % 2 == 0) {
        atomicAdd(counter, 1);  // fault: MixesAtomicAndPlain
    } else {
        *counter = *counter + 1;
    }
}
void RunMixesAtomicAndPlain() {
    const Buffer<int> counter(std::vector<int>{0});
    Launch("fault", {1}, MixesAtomicAndPlain, counter.data());
}

__global__ void __launch_bounds__(kBlock) OverlapsBytes(uint8_t *output) {
    auto *const pairs = reinterpret_cast<uint16_t *>(output);
    pairs[threadIdx.x] = 1;
    output[2 * threadIdx.x + 2] = 2;  // fault: OverlapsBytes
}
void RunOverlapsBytes() {
    const Buffer<uint8_t> output(2 * kBlock + 4);
    Launch("fault", {1}, OverlapsBytes, output.data());
}

__global__ void __launch_bounds__(kBlock) LacksBarrierAfterCopy(float *output, const float *input) {
    __shared__ float tile[kBlock];
    __pipeline_memcpy_async(&tile[threadIdx.x], &input[threadIdx.x], sizeof(float));  // fault: LacksBarrierAfterCopy
    __pipeline_commit();
    __pipeline_wait_prior(0);
    output[threadIdx.x] = tile[(threadIdx.x + kWarp) % kBlock];
}
void RunLacksBarrierAfterCopy() {
    const Buffer<float> input(std::vector<float>(kBlock, 1.0F)), output(kBlock);
    Launch("fault", {1}, LacksBarrierAfterCopy, output.data(), input.data());
}

}  // namespace

Faults OrderFaults() {
    const char *const file = "order_faults.cu";
    return {
        {"LacksBarrier", Defect::kRace, &RunLacksBarrier, true, file},
        {"LacksBarrierInLoop", Defect::kRace, &RunLacksBarrierInLoop, true, file},
        {"LacksSyncwarp", Defect::kRace, &RunLacksSyncwarp, true, file},
        {"SyncsWarpForBlock", Defect::kRace, &RunSyncsWarpForBlock, true, file},
        {"WritesOneElement", Defect::kRace, &RunWritesOneElement, true, file},
        {"WritesTheSame", Defect::kRace, &RunWritesTheSame, true, file},
        {"BlocksOverlap", Defect::kRace, &RunBlocksOverlap, true, file},
        {"ReadsOtherBlock", Defect::kRace, &RunReadsOtherBlock, true, file},
        {"LacksFence", Defect::kRace, &RunLacksFence, true, file},
        {"CountsTooEarly", Defect::kRace, &RunCountsTooEarly, true, file},
        {"MixesAtomicAndPlain", Defect::kRace, &RunMixesAtomicAndPlain, true, file},
        {"OverlapsBytes", Defect::kRace, &RunOverlapsBytes, true, file},
        {"LacksBarrierAfterCopy", Defect::kRace, &RunLacksBarrierAfterCopy, true, file},
    };
}

}  // namespace infini_train::test
