#include "infini_train/src/cuda/random_shift.h"
#include "infini_train/src/kernels/cuda/launch.cuh"

namespace infini_train::cuda {
namespace {

__global__ void __launch_bounds__(kBlock) StoreKernel(RandomShift *shift, RandomShift value) {
    if (threadIdx.x == 0) {
        *shift = value;
    }
}

}  // namespace

void StoreRandomShift(RandomShift *shift, const RandomShift &value) {
    Launch("StoreRandomShift", {1, kWarp}, StoreKernel, shift, value);
}

}  // namespace infini_train::cuda
