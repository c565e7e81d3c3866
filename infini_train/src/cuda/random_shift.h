#pragma once

#include "infini_train/include/core/generator.h"

namespace infini_train::cuda {

/// What a graph's replay does to the random numbers of its kernels, in the device's memory: draws from the generator
/// that was at `from` while it was captured move to one that is at `to`.
struct RandomShift {
    Generator::State from;
    Generator::State to;
};

/// That of the graph which this thread is capturing; null outside. Kernels that draw get it among their arguments.
const RandomShift *CurrentRandomShift();
void SetCurrentRandomShift(const RandomShift *shift);

/// Queues a change of it (src/kernels/cuda/random_shift.cu).
void StoreRandomShift(RandomShift *shift, const RandomShift &value);

}  // namespace infini_train::cuda
