#include "infini_train/src/kernels/cpu/loop_nest.h"

#include <utility>

namespace infini_train::cpu {
namespace {

void SwapDims(LoopNest *nest, int a, int b) {
    std::swap(nest->dims[a], nest->dims[b]);
    for (int k = 0; k < nest->num_operands; ++k) {
        std::swap(nest->strides[k][a], nest->strides[k][b]);
    }
}

// Largest stride of the output first, so that rows are walked as they lie in memory.
void SortDims(LoopNest *nest) {
    for (int i = 1; i < nest->ndim; ++i) {
        for (int j = i; j > 0 && nest->strides[0][j - 1] < nest->strides[0][j]; --j) {
            SwapDims(nest, j - 1, j);
        }
    }
}

bool CanMerge(const LoopNest &nest, int outer, int inner) {
    for (int k = 0; k < nest.num_operands; ++k) {
        if (nest.strides[k][outer] != nest.strides[k][inner] * nest.dims[inner]) {
            return false;
        }
    }
    return true;
}

void MergeDims(LoopNest *nest) {
    int last = 0;
    for (int d = 1; d < nest->ndim; ++d) {
        const bool merge = CanMerge(*nest, last, d);
        const int64_t outer = merge ? nest->dims[last] : 1;
        last += merge ? 0 : 1;
        nest->dims[last] = outer * nest->dims[d];
        for (int k = 0; k < nest->num_operands; ++k) {
            nest->strides[k][last] = nest->strides[k][d];
        }
    }
    nest->ndim = last + 1;
}

}  // namespace

LoopNest::LoopNest(const TensorRef &output, std::span<const ConstTensorRef> inputs, Order order)
    : num_operands(1 + static_cast<int>(inputs.size())) {
    ConstTensorRef operands[kMaxOperands] = {output};
    std::copy(inputs.begin(), inputs.end(), operands + 1);
    for (int k = 0; k < num_operands; ++k) {
        data[k] = static_cast<char *>(const_cast<void *>(operands[k].data));
    }
    for (int d = 0; d < output.ndim; ++d) {
        if (output.dims[d] == 1) {
            continue;
        }
        dims[ndim] = output.dims[d];
        for (int k = 0; k < num_operands; ++k) {
            // Aligned at the last dim; what an operand lacks or has once is repeated.
            const int own = d - output.ndim + operands[k].ndim;
            const bool repeated = own < 0 || operands[k].dims[own] == 1;
            strides[k][ndim] =
                repeated ? 0 : operands[k].strides[own] * static_cast<int64_t>(SizeOf(operands[k].dtype));
        }
        ++ndim;
    }
    if (ndim == 0) {
        dims[0] = 1;
        for (int k = 0; k < num_operands; ++k) {
            strides[k][0] = static_cast<int64_t>(SizeOf(operands[k].dtype));
        }
        ndim = 1;
        return;
    }
    if (order == Order::kMemory) {
        SortDims(this);
    }
    MergeDims(this);
    for (int d = 0; d + 1 < ndim; ++d) {
        num_rows *= dims[d];
    }
}

RowCursor::RowCursor(const LoopNest &nest, int64_t row) : nest_(nest) {
    std::copy(nest.data, nest.data + nest.num_operands, data_);
    for (int d = nest.ndim - 2; d >= 0; --d) {
        index_[d] = row % nest.dims[d];
        row /= nest.dims[d];
        for (int k = 0; k < nest.num_operands; ++k) {
            data_[k] += index_[d] * nest.strides[k][d];
        }
    }
}

void RowCursor::Next() {
    for (int d = nest_.ndim - 2; d >= 0; --d) {
        const bool wraps = ++index_[d] == nest_.dims[d];
        const int64_t steps = wraps ? 1 - nest_.dims[d] : 1;
        for (int k = 0; k < nest_.num_operands; ++k) {
            data_[k] += steps * nest_.strides[k][d];
        }
        if (!wraps) {
            return;
        }
        index_[d] = 0;
    }
}

}  // namespace infini_train::cpu
