// Kernels that touch what they may not, or read what nobody wrote.

#include <cstdint>
#include <mma.h>

#include <cuda_pipeline_primitives.h>

#include "infini_train/src/kernels/cuda/launch.cuh"
#include "infini_train/src/kernels/cuda/vector.cuh"
#include "test/cuda_emulation/faults/buffer.h"
#include "test/cuda_emulation/faults/fault.h"

namespace infini_train::test {
namespace {

using cuda::kBlock;
using cuda::Launch;
using cuda_emulation::Defect;

constexpr int kCount = 1000;

std::vector<float> Numbers(int count = kCount) {
    std::vector<float> values(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
        values[static_cast<size_t>(i)] = static_cast<float>(i);
    }
    return values;
}

__global__ void __launch_bounds__(kBlock) WritesBeyondEnd(float *output, int count) {
    for (int i = threadIdx.x; i <= count; i += kBlock) {
        output[i] = 1;  // fault: WritesBeyondEnd
    }
}
void RunWritesBeyondEnd() {
    const Buffer<float> output(kCount);
    Launch("fault", {1}, WritesBeyondEnd, output.data(), kCount);
}

__global__ void __launch_bounds__(kBlock) ReadsBeyondEnd(float *output, const float *input, int count) {
    for (int i = threadIdx.x; i < count; i += kBlock) {
        output[i] = input[i + 1];  // fault: ReadsBeyondEnd
    }
}
void RunReadsBeyondEnd() {
    const Buffer<float> input(Numbers()), output(kCount);
    Launch("fault", {1}, ReadsBeyondEnd, output.data(), input.data(), kCount);
}

__global__ void __launch_bounds__(kBlock) ReadsBeforeBegin(float *output, const float *input) {
    const int i = threadIdx.x;
    output[i] = input[i - 1];  // fault: ReadsBeforeBegin
}
void RunReadsBeforeBegin() {
    const Buffer<float> input(Numbers()), output(kCount);
    Launch("fault", {1}, ReadsBeforeBegin, output.data(), input.data());
}

__global__ void __launch_bounds__(kBlock) UsesFreed(float *output) {
    output[threadIdx.x] = 1;  // fault: UsesFreed
}
void RunUsesFreed() {
    float *freed = nullptr;
    {
        const Buffer<float> output(kBlock);
        freed = output.data();
    }
    const Buffer<float> other(kBlock);
    Launch("fault", {1}, UsesFreed, freed);
}

__global__ void __launch_bounds__(kBlock) ReadsUninitialised(float *output, const float *input) {
    output[threadIdx.x] = input[threadIdx.x];  // fault: ReadsUninitialised
}
void RunReadsUninitialised() {
    const Buffer<float> input(kBlock), output(kBlock);
    Launch("fault", {1}, ReadsUninitialised, output.data(), input.data());
}

__global__ void __launch_bounds__(kBlock) AddsToUninitialised(int *counter) {
    atomicAdd(counter, 1);  // fault: AddsToUninitialised
}
void RunAddsToUninitialised() {
    const Buffer<int> counter(1);
    Launch("fault", {1}, AddsToUninitialised, counter.data());
}

// The last elements of an odd tail aren't filled.
__global__ void __launch_bounds__(kBlock) ReadsHalfFilledTile(float *output, const float *input, int count) {
    __shared__ float tile[kBlock];
    if (static_cast<int>(threadIdx.x) < count) {
        tile[threadIdx.x] = input[threadIdx.x];
    }
    __syncthreads();
    output[threadIdx.x] = tile[kBlock - 1 - threadIdx.x];  // fault: ReadsHalfFilledTile
}
void RunReadsHalfFilledTile() {
    const Buffer<float> input(Numbers()), output(kBlock);
    Launch("fault", {1}, ReadsHalfFilledTile, output.data(), input.data(), 200);
}

// What the block before has left.
__global__ void __launch_bounds__(kBlock) ReadsOtherBlocksShared(float *output) {
    __shared__ float value;
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        value = 1;
    }
    __syncthreads();
    output[blockIdx.x * kBlock + threadIdx.x] = value;  // fault: ReadsOtherBlocksShared
}
void RunReadsOtherBlocksShared() {
    const Buffer<float> output(2 * kBlock);
    Launch("fault", {2}, ReadsOtherBlocksShared, output.data());
}

__global__ void __launch_bounds__(kBlock) WritesBeyondShared(float *output) {
    auto *const tile = reinterpret_cast<float *>(dynamic_shared);
    tile[threadIdx.x + 1] = 1;  // fault: WritesBeyondShared
    output[threadIdx.x] = 1;
}
void RunWritesBeyondShared() {
    const Buffer<float> output(kBlock);
    Launch("fault", {1, kBlock, kBlock * sizeof(float)}, WritesBeyondShared, output.data());
}

__global__ void __launch_bounds__(kBlock) LoadsMisaligned(float *output, const float *input) {
    const auto group = cuda::Vec<float, 4>::Load(input + 4 * threadIdx.x);  // fault: LoadsMisaligned
    output[threadIdx.x] = group[0] + group[1] + group[2] + group[3];
}
void RunLoadsMisaligned() {
    const Buffer<float> input(Numbers(4 * kBlock + 4)), output(kBlock);
    Launch("fault", {1}, LoadsMisaligned, output.data(), input.data() + 1);
}

__global__ void __launch_bounds__(kBlock) ReadsHostMemory(float *output, const float *input) {
    output[threadIdx.x] = input[threadIdx.x];  // fault: ReadsHostMemory
}
void RunReadsHostMemory() {
    const std::vector<float> input = Numbers();
    const Buffer<float> output(kBlock);
    Launch("fault", {1}, ReadsHostMemory, output.data(), input.data());
}

__global__ void __launch_bounds__(kBlock) ReadsNull(float *output, const float *input) {
    output[threadIdx.x] = input[threadIdx.x];  // fault: ReadsNull
}
void RunReadsNull() {
    const Buffer<float> output(kBlock);
    Launch("fault", {1}, ReadsNull, output.data(), static_cast<const float *>(nullptr));
}

__global__ void __launch_bounds__(kBlock) WritesWild(float *output) {
    output[int64_t{1} << 30] = 1;  // fault: WritesWild
}
void RunWritesWild() {
    const Buffer<float> output(kBlock);
    Launch("fault", {1}, WritesWild, output.data());
}

__global__ void __launch_bounds__(kBlock) SharesLocalMemory(int *output) {
    __shared__ int *of_first;
    int local = static_cast<int>(threadIdx.x);
    if (threadIdx.x == 0) {
        of_first = &local;
    }
    __syncthreads();
    output[threadIdx.x] = *of_first;  // fault: SharesLocalMemory
    __syncthreads();
}
void RunSharesLocalMemory() {
    const Buffer<int> output(kBlock);
    Launch("fault", {1}, SharesLocalMemory, output.data());
}

__global__ void __launch_bounds__(kBlock) LeavesLocalArray(int *output, int reach) {
    int local[4] = {1, 2, 3, 4};
    for (int i = 0; i < reach; ++i) {
        local[i] += static_cast<int>(threadIdx.x);  // fault: LeavesLocalArray
    }
    output[threadIdx.x] = local[threadIdx.x % 4];
}
void RunLeavesLocalArray() {
    const Buffer<int> output(kBlock);
    Launch("fault", {1}, LeavesLocalArray, output.data(), 5);
}

__global__ void __launch_bounds__(kBlock) ShiftsTooFar(int *output, int by) {
    output[threadIdx.x] = 1 << (by + static_cast<int>(threadIdx.x));  // fault: ShiftsTooFar
}
void RunShiftsTooFar() {
    const Buffer<int> output(kBlock);
    Launch("fault", {1}, ShiftsTooFar, output.data(), 8);
}

__global__ void __launch_bounds__(kBlock) OverflowsIndex(const int64_t *input, int64_t *output, int rows, int columns) {
    output[threadIdx.x] = input[0] + rows * columns;  // fault: OverflowsIndex
}
void RunOverflowsIndex() {
    const Buffer<int64_t> input(std::vector<int64_t>{1}), output(kBlock);
    Launch("fault", {1}, OverflowsIndex, input.data(), output.data(), 70000, 70000);
}

__global__ void __launch_bounds__(kBlock) ReadsBeforeCopyIsDone(float *output, const float *input) {
    __shared__ float tile[kBlock];
    __pipeline_memcpy_async(&tile[threadIdx.x], &input[threadIdx.x], sizeof(float));
    __pipeline_commit();
    output[threadIdx.x] = tile[threadIdx.x];  // fault: ReadsBeforeCopyIsDone
    __pipeline_wait_prior(0);
}
void RunReadsBeforeCopyIsDone() {
    const Buffer<float> input(Numbers()), output(kBlock);
    Launch("fault", {1}, ReadsBeforeCopyIsDone, output.data(), input.data());
}

__global__ void __launch_bounds__(kBlock) LoadsMisalignedTile(float *output, const float *input) {
    using namespace nvcuda::wmma;  // NOLINT(google-build-using-namespace)
    fragment<accumulator, 16, 16, 16, float> tile;
    load_matrix_sync(tile, input, 20, mem_row_major);  // fault: LoadsMisalignedTile
    store_matrix_sync(output, tile, 16, mem_row_major);
}
void RunLoadsMisalignedTile() {
    const Buffer<float> input(Numbers(2000)), output(256);
    Launch("fault", {1, cuda::kWarp}, LoadsMisalignedTile, output.data(), input.data() + 4);
}

}  // namespace

Faults MemoryFaults() {
    const char *const file = "memory_faults.cu";
    return {
        {"WritesBeyondEnd", Defect::kOutOfBounds, &RunWritesBeyondEnd, true, file},
        {"ReadsBeyondEnd", Defect::kOutOfBounds, &RunReadsBeyondEnd, true, file},
        {"ReadsBeforeBegin", Defect::kOutOfBounds, &RunReadsBeforeBegin, true, file},
        {"UsesFreed", Defect::kOutOfBounds, &RunUsesFreed, true, file},
        {"ReadsUninitialised", Defect::kUninitialised, &RunReadsUninitialised, true, file},
        {"AddsToUninitialised", Defect::kUninitialised, &RunAddsToUninitialised, true, file},
        {"ReadsHalfFilledTile", Defect::kUninitialised, &RunReadsHalfFilledTile, true, file},
        {"ReadsOtherBlocksShared", Defect::kUninitialised, &RunReadsOtherBlocksShared, true, file},
        {"WritesBeyondShared", Defect::kOutOfBounds, &RunWritesBeyondShared, true, file},
        {"LoadsMisaligned", Defect::kMisaligned, &RunLoadsMisaligned, true, file},
        {"LoadsMisalignedTile", Defect::kMisaligned, &RunLoadsMisalignedTile, false, file},
        {"ReadsHostMemory", Defect::kIllegalAddress, &RunReadsHostMemory, true, file},
        {"ReadsNull", Defect::kIllegalAddress, &RunReadsNull, false, file},
        {"WritesWild", Defect::kOutOfBounds, &RunWritesWild, true, file},
        {"SharesLocalMemory", Defect::kIllegalAddress, &RunSharesLocalMemory, true, file},
        {"LeavesLocalArray", Defect::kUndefined, &RunLeavesLocalArray, true, file},
        {"ShiftsTooFar", Defect::kUndefined, &RunShiftsTooFar, true, file},
        {"OverflowsIndex", Defect::kUndefined, &RunOverflowsIndex, true, file},
        {"ReadsBeforeCopyIsDone", Defect::kUninitialised, &RunReadsBeforeCopyIsDone, true, file},
    };
}

}  // namespace infini_train::test
