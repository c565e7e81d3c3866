#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace infini_train::internal {

// Dims and strides of a tensor; never changed once made, so that tensors of one shape share them.
struct TensorLayout {
    std::vector<int64_t> dims;
    std::vector<int64_t> strides;
    int64_t num_elements = 1;
    bool is_contiguous = true;
    bool is_row_major = true;  // contiguous, and with the strides that a new tensor has
};
using TensorLayoutPtr = std::shared_ptr<const TensorLayout>;

/// What autograd knows of a tensor; made only when needed, and complete only in the autograd layer.
struct AutogradMetaBase {
    virtual ~AutogradMetaBase() = default;
    bool requires_grad = false;  // true for leaves that were asked to, and for results of recorded functions
};

}  // namespace infini_train::internal
