#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

namespace infini_train::cuda {

/// The largest rank that is left once dims of one element are gone: each has at least two, and 2^40 don't fit a device.
inline constexpr int kMaxStridedDims = 40;

/// The dims of a kernel's loop and, in elements, the strides of its operands (0 where one is broadcast).
struct StridedLoop {
    static constexpr int kMaxOperands = 4;

    /// How an operand lies; its dims are aligned with the loop's at the last one, and are 1 or missing where it is
    /// broadcast.
    struct Operand {
        std::span<const int64_t> dims;
        const int64_t *strides;
    };

    /// Dims of one element are dropped, neighbours merged where all operands allow it. The order of the elements, row
    /// by row, stays.
    StridedLoop(std::span<const int64_t> loop_dims, std::span<const Operand> operands);
    StridedLoop(std::span<const int64_t> loop_dims, std::initializer_list<Operand> operands)
        : StridedLoop(loop_dims, std::span<const Operand>(operands.begin(), operands.size())) {}

    /// Goes through the elements in the order of operand 0's memory instead: the order must not matter to the kernel.
    void SortByMemory();

    /// Whether operand k lies in memory as the loop counts.
    bool IsContiguous(int k) const { return num_elements <= 1 || (ndim == 1 && strides[k][0] == 1); }
    /// Whether operand k is one element.
    bool IsScalar(int k) const;
    /// Whether the elements' numbers and all offsets fit 31 bits.
    bool IsSmall() const;

    int ndim = 0;
    int num_operands = 0;
    int64_t num_elements = 1;
    int64_t dims[kMaxStridedDims];
    int64_t strides[kMaxOperands][kMaxStridedDims];

private:
    void Merge();
};

}  // namespace infini_train::cuda
