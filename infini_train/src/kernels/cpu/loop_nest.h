#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "infini_train/include/core/parallel.h"

#include "infini_train/src/kernels/tensor_ref.h"

namespace infini_train::cpu {

/// The loops over an output and up to three inputs that broadcast to it: dims of size 1 are gone, the others are in the
/// order of the output's memory and merged where all operands allow it. The last dim is the row. The output has at
/// least one element. Strides are in bytes; operand 0 is the output.
struct LoopNest {
    /// Each dim that is left has at least two elements, and all of them have distinct addresses.
    static constexpr int kMaxDims = 64;
    static constexpr int kMaxOperands = 4;

    enum class Order { kMemory, kRowMajor };

    LoopNest(const TensorRef &output, std::span<const ConstTensorRef> inputs, Order order = Order::kMemory);

    int64_t RowLength() const { return dims[ndim - 1]; }
    int64_t RowStride(int operand) const { return strides[operand][ndim - 1]; }
    bool HasOneRow() const { return ndim == 1; }

    int num_operands;
    int ndim = 0;
    int64_t num_rows = 1;
    int64_t dims[kMaxDims];
    int64_t strides[kMaxOperands][kMaxDims];
    char *data[kMaxOperands];
};

/// Walks the rows of a nest.
class RowCursor {
public:
    RowCursor(const LoopNest &nest, int64_t row);
    void Next();
    /// Where each operand's row begins.
    char *const *data() const { return data_; }

private:
    const LoopNest &nest_;
    int64_t index_[LoopNest::kMaxDims];
    char *data_[LoopNest::kMaxOperands];
};

/// Calls `body(first_row, end_row, first_element, end_element)` in parallel for groups of whole rows, or for pieces of
/// one row if rows are longer than `grain` elements. The pieces don't depend on the number of threads.
template <typename Body>
void ParallelForRows(const LoopNest &nest, int64_t grain, Body &&body) {
    const int64_t length = nest.RowLength();
    if (length <= grain) {
        ParallelFor(0, nest.num_rows, std::max<int64_t>(1, grain / length),
                    [&](int64_t begin, int64_t end) { body(begin, end, int64_t{0}, length); });
        return;
    }
    const int64_t pieces = (length + grain - 1) / grain;
    ParallelFor(0, nest.num_rows * pieces, 1, [&](int64_t begin, int64_t end) {
        for (int64_t piece = begin; piece < end; ++piece) {
            const int64_t row = piece / pieces;
            const int64_t first = piece % pieces * grain;
            body(row, row + 1, first, std::min(length, first + grain));
        }
    });
}

}  // namespace infini_train::cpu
