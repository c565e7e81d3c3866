#pragma once

#include <cstdint>

#include "infini_train/include/core/generator.h"

#include "infini_train/src/kernels/tensor_ref.h"

namespace infini_train::cuda {

// The kernels of the tags of the same names.
void UniformFillKernel(TensorRef output, double from, double to, Generator::State state);
void NormalFillKernel(TensorRef output, double mean, double std, Generator::State state);
void RandIntFillKernel(TensorRef output, int64_t low, int64_t high, Generator::State state);

}  // namespace infini_train::cuda
