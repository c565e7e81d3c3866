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

    /// Drops the outermost dim, of which one element is left.
    void DropFirst();

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

/// Calls `body(piece, offsets)` for parts of the loop that are small, one after the other in its order; offsets[k], in
/// elements, is where operand k's part begins. Mostly it is one call for the loop itself.
template <typename F>
void ForEachSmall(const StridedLoop &loop, F &&body, const int64_t *offsets = nullptr) {
    static constexpr int64_t kNone[StridedLoop::kMaxOperands] = {};
    offsets = offsets != nullptr ? offsets : kNone;
    if (loop.IsSmall()) {
        body(loop, offsets);
        return;
    }
    // Halves the outermost dim; one of a single element has no dims left and is small.
    StridedLoop part = loop;
    int64_t begins[StridedLoop::kMaxOperands];
    const int64_t half = loop.dims[0] / 2;
    const int64_t inner = loop.num_elements / loop.dims[0];
    for (int64_t first = 0; first < loop.dims[0]; first += part.dims[0]) {
        part = loop;
        part.dims[0] = first == 0 ? half : loop.dims[0] - half;
        part.num_elements = inner * part.dims[0];
        for (int k = 0; k < loop.num_operands; ++k) {
            begins[k] = offsets[k] + first * loop.strides[k][0];
        }
        const int64_t length = part.dims[0];
        if (length == 1) {
            part.DropFirst();
        }
        ForEachSmall(part, body, begins);
        part.dims[0] = length;
    }
}

}  // namespace infini_train::cuda
