#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "infini_train/include/tensor.h"

#include "infini_train/src/kernels/tensor_ref.h"

namespace infini_train::autograd {

/// A tensor looked at as one matrix, whose strides the Matmul kernel takes. Keeps the tensor, or the copy that was
/// needed, alive.
class MatrixView {
public:
    /// (..., columns) as (rows, columns); a vector is one row.
    static MatrixView FoldRows(const TensorPtr &tensor);
    /// A vector as one column.
    static MatrixView Column(const TensorPtr &tensor);

    MatrixView Transposed() const;
    int64_t rows() const { return dims_[0]; }
    int64_t columns() const { return dims_[1]; }
    const TensorPtr &tensor() const { return tensor_; }
    /// Valid as long as this view is.
    ConstTensorRef ref() const;

private:
    MatrixView(TensorPtr tensor, std::array<int64_t, 2> dims, std::array<int64_t, 2> strides)
        : tensor_(std::move(tensor)), dims_(dims), strides_(strides) {}

    TensorPtr tensor_;
    std::array<int64_t, 2> dims_;
    std::array<int64_t, 2> strides_;
};

/// a b [+ bias (columns of b)] as a new tensor of `dims`, whatever they are as long as the number of elements is right.
TensorPtr Multiply(const MatrixView &a, const MatrixView &b, const std::vector<int64_t> &dims,
                   const TensorPtr &bias = nullptr);

/// Whether the Matmul kernel takes a matrix of these dims and strides as it is.
bool IsMatrixLayout(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride);

/// The sum over all dimensions but one: input (outer, channels, inner), with any dims and strides, gives (channels).
TensorPtr SumChannels(const TensorPtr &input, int64_t outer, int64_t channels, int64_t inner);

/// Throws DtypeError unless all are of the first one's type, and that one is floating-point (or, with
/// `allow_integers`, an integer).
void CheckSameDtype(const char *name, const TensorList &inputs, bool allow_integers);

}  // namespace infini_train::autograd
