// Barriers and warp operations that some threads don't reach, or with masks that name the wrong lanes.

#include "infini_train/src/kernels/cuda/launch.cuh"
#include "test/cuda_emulation/faults/buffer.h"
#include "test/cuda_emulation/faults/fault.h"

namespace infini_train::test {
namespace {

using cuda::kBlock;
using cuda::kWarp;
using cuda::Launch;
using cuda_emulation::Defect;

constexpr unsigned kAll = 0xffffffffU;

template <typename Kernel>
void Run(Kernel kernel, int block = kBlock) {
    const Buffer<int> output(std::vector<int>(kBlock, 0));
    Launch("fault", {1, static_cast<unsigned>(block)}, kernel, output.data());
}

__global__ void __launch_bounds__(kBlock) ReturnsBeforeBarrier(int *output) {
    if (threadIdx.x >= 200) {
        return;
    }
    __syncthreads();  // fault: ReturnsBeforeBarrier
    output[threadIdx.x] = 1;
}

__global__ void __launch_bounds__(kBlock) HasTwoBarriers(int *output) {
    if (threadIdx.x % 2 == 0) {
        output[threadIdx.x] = 1;
        __syncthreads();  // fault: HasTwoBarriers
        output[threadIdx.x] = 2;
    } else {
        output[threadIdx.x] = 3;
        __syncthreads();
        output[threadIdx.x] = 4;
    }
}

__global__ void __launch_bounds__(kBlock) MixesBarrierAndShuffle(int *output) {
    if (threadIdx.x % 32 < 16) {
        __syncthreads();  // fault: MixesBarrierAndShuffle
    } else {
        output[threadIdx.x] = __shfl_sync(kAll, 1, 0);
    }
}

__global__ void __launch_bounds__(kBlock) ShufflesInHalfAWarp(int *output) {
    if (threadIdx.x % 32 < 16) {
        output[threadIdx.x] = __shfl_xor_sync(kAll, 1, 1);  // fault: ShufflesInHalfAWarp
    }
}

__global__ void __launch_bounds__(kBlock) LeavesItselfOut(int *output) {
    output[threadIdx.x] = __shfl_sync(0xfffffffeU, 1, 1);  // fault: LeavesItselfOut
}

__global__ void __launch_bounds__(kBlock) NamesReturnedLanes(int *output) {
    if (threadIdx.x % 32 == 31) {
        return;
    }
    output[threadIdx.x] = 1;
    __syncwarp(0x7fffffffU);
    output[threadIdx.x] = __any_sync(kAll, 1);  // fault: NamesReturnedLanes
}

__global__ void __launch_bounds__(kBlock) NamesLanesBeyondBlock(int *output) {
    output[threadIdx.x] = __ballot_sync(kAll, 1) != 0;  // fault: NamesLanesBeyondBlock
}

__global__ void __launch_bounds__(kBlock) ShufflesFromOutside(int *output) {
    if (threadIdx.x % 32 < 16) {
        output[threadIdx.x] = __shfl_sync(0x0000ffffU, 1, 20);  // fault: ShufflesFromOutside
    }
}

__global__ void __launch_bounds__(kBlock) DisagreesOnTheMask(int *output) {
    const unsigned mask = threadIdx.x % 32 < 16 ? 0x0001ffffU : kAll;
    output[threadIdx.x] = __shfl_sync(mask, 1, 0);  // fault: DisagreesOnTheMask
}

__global__ void __launch_bounds__(kBlock) Traps(int *output) {
    if (output[threadIdx.x] == 0) {
        __trap();  // fault: Traps
    }
}

}  // namespace

Faults SynchronisationFaults() {
    const char *const file = "synchronisation_faults.cu";
    return {
        {"ReturnsBeforeBarrier", Defect::kDivergentBarrier, [] { Run(ReturnsBeforeBarrier); }, false, file},
        {"HasTwoBarriers", Defect::kDivergentBarrier, [] { Run(HasTwoBarriers); }, false, file},
        {"MixesBarrierAndShuffle", Defect::kNeverCompletes, [] { Run(MixesBarrierAndShuffle); }, false, file},
        {"ShufflesInHalfAWarp", Defect::kNeverCompletes, [] { Run(ShufflesInHalfAWarp); }, false, file,
         Defect::kWrongMask},
        {"LeavesItselfOut", Defect::kWrongMask, [] { Run(LeavesItselfOut); }, false, file},
        {"NamesReturnedLanes", Defect::kWrongMask, [] { Run(NamesReturnedLanes); }, false, file},
        {"NamesLanesBeyondBlock", Defect::kWrongMask, [] { Run(NamesLanesBeyondBlock, 16); }, false, file},
        {"ShufflesFromOutside", Defect::kWrongMask, [] { Run(ShufflesFromOutside); }, false, file},
        {"DisagreesOnTheMask", Defect::kNeverCompletes, [] { Run(DisagreesOnTheMask); }, false, file},
        {"Traps", Defect::kTrap, [] { Run(Traps); }, false, file},
    };
}

}  // namespace infini_train::test
