#pragma once

#include "infini_train/include/core/dispatcher.h"
#include "infini_train/include/core/generator.h"
#include "infini_train/include/scalar.h"

#include "infini_train/src/kernels/tensor_ref.h"

namespace infini_train::kernels {

/// output = value, converted; any strides.
struct Fill : KernelTag<void(TensorRef output, Scalar value)> {
    static constexpr const char *kName = "Fill";
};

/// output = input, converted element by element as static_cast does (float to integer truncates, anything but 0 is
/// true). Same dims; any strides, 0 for a broadcast input. The memory of both overlaps wholly and alike or not at all.
struct Copy : KernelTag<void(TensorRef output, ConstTensorRef input)> {
    static constexpr const char *kName = "Copy";
};

/// output[i] = start + i * step for a contiguous output.
struct Arange : KernelTag<void(TensorRef output, Scalar start, Scalar step)> {
    static constexpr const char *kName = "Arange";
};

/// Random values, element i of the row-major order from the i-th numbers after `state`; floating-point outputs.
/// Float32 and narrower take one 32-bit number an element (block i / 4, word i % 4), float64 takes two.
struct UniformFill : KernelTag<void(TensorRef output, double from, double to, Generator::State state)> {
    static constexpr const char *kName = "UniformFill";
};
/// Box-Muller, of the same random numbers as UniformFill: elements 2 j and 2 j + 1 are the NormalFloats of their two
/// words, or for float64 the NormalDoubles of block j.
struct NormalFill : KernelTag<void(TensorRef output, double mean, double std, Generator::State state)> {
    static constexpr const char *kName = "NormalFill";
};
/// Integers in [low, high), one block of four numbers an element.
struct RandIntFill : KernelTag<void(TensorRef output, int64_t low, int64_t high, Generator::State state)> {
    static constexpr const char *kName = "RandIntFill";
};

}  // namespace infini_train::kernels
