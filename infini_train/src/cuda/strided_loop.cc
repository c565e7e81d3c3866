#include "infini_train/src/cuda/strided_loop.h"

#include <cstdlib>
#include <limits>
#include <utility>

#include "infini_train/include/common/error.h"

#include "infini_train/src/common/format.h"

namespace infini_train::cuda {

StridedLoop::StridedLoop(std::span<const int64_t> loop_dims, std::span<const Operand> operands)
    : num_operands(static_cast<int>(operands.size())) {
    const size_t rank = loop_dims.size();
    for (size_t d = 0; d < rank; ++d) {
        num_elements *= loop_dims[d];
        if (loop_dims[d] == 1) {
            continue;
        }
        if (ndim == kMaxStridedDims) {
            if (num_elements == 0) {
                continue;
            }
            Throw<NotImplementedError>("StridedLoop: expected at most {} dims of more than one element, got {}",
                                       kMaxStridedDims, FormatDims(loop_dims));
        }
        dims[ndim] = loop_dims[d];
        for (int k = 0; k < num_operands; ++k) {
            const Operand &operand = operands[static_cast<size_t>(k)];
            const size_t missing = rank - operand.dims.size();
            const bool is_broadcast = d < missing || operand.dims[d - missing] == 1;
            strides[k][ndim] = is_broadcast ? 0 : operand.strides[d - missing];
        }
        ++ndim;
    }
    Merge();
}

void StridedLoop::Merge() {
    int kept = 0;
    for (int d = 1; d < ndim; ++d) {
        const int64_t length = dims[d];
        bool merges = true;
        for (int k = 0; k < num_operands; ++k) {
            merges &= strides[k][kept] == strides[k][d] * length;
        }
        if (merges) {
            dims[kept] *= length;
        } else {
            dims[++kept] = length;
        }
        for (int k = 0; k < num_operands; ++k) {
            strides[k][kept] = strides[k][d];
        }
    }
    ndim = ndim == 0 ? 0 : kept + 1;
}

void StridedLoop::SortByMemory() {
    // By insertion: there are few, mostly in order.
    for (int d = 1; d < ndim; ++d) {
        for (int e = d; e > 0 && std::abs(strides[0][e - 1]) < std::abs(strides[0][e]); --e) {
            std::swap(dims[e - 1], dims[e]);
            for (int k = 0; k < num_operands; ++k) {
                std::swap(strides[k][e - 1], strides[k][e]);
            }
        }
    }
    Merge();
}

void StridedLoop::DropFirst() {
    --ndim;
    for (int d = 0; d < ndim; ++d) {
        dims[d] = dims[d + 1];
        for (int k = 0; k < num_operands; ++k) {
            strides[k][d] = strides[k][d + 1];
        }
    }
}

bool StridedLoop::IsScalar(int k) const {
    for (int d = 0; d < ndim; ++d) {
        if (strides[k][d] != 0) {
            return false;
        }
    }
    return true;
}

bool StridedLoop::IsSmall() const {
    constexpr int64_t kLimit = std::numeric_limits<int32_t>::max();
    if (num_elements > kLimit) {
        return false;
    }
    for (int k = 0; k < num_operands; ++k) {
        int64_t reach = 0;
        for (int d = 0; d < ndim; ++d) {
            reach += (dims[d] - 1) * std::abs(strides[k][d]);
        }
        if (reach > kLimit) {
            return false;
        }
    }
    return true;
}

}  // namespace infini_train::cuda
