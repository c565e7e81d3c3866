#include "infini_train/src/autograd/matrix.h"

#include <string>
#include <utility>

#include "infini_train/src/common/format.h"
#include "infini_train/src/kernels/matmul.h"
#include "infini_train/src/tensor/ref.h"
#include "infini_train/src/tensor/shape.h"

namespace infini_train::autograd {

bool IsMatrixLayout(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride) {
    const bool row_major = (columns <= 1 || column_stride == 1) && (rows <= 1 || row_stride >= columns);
    const bool column_major = (rows <= 1 || row_stride == 1) && (columns <= 1 || column_stride >= rows);
    return row_major || column_major;
}

MatrixView MatrixView::FoldRows(const TensorPtr &tensor) {
    const auto ndim = static_cast<size_t>(tensor->NumDims());
    const auto &dims = tensor->Dims();
    const auto &strides = tensor->Strides();
    const int64_t columns = dims[ndim - 1];
    int64_t rows = 1;
    int64_t row_stride = columns;
    bool foldable = true;
    for (size_t i = ndim - 1; i-- > 0;) {
        if (dims[i] == 1) {
            continue;
        }
        foldable &= rows == 1 || strides[i] == rows * row_stride;
        row_stride = rows == 1 ? strides[i] : row_stride;
        rows *= dims[i];
    }
    if (!tensor->IsContiguous() && !(foldable && IsMatrixLayout(rows, columns, row_stride, strides[ndim - 1]))) {
        return {ContiguousCopy(tensor), {rows, columns}, {columns, 1}};
    }
    if (tensor->IsContiguous()) {
        return {tensor, {rows, columns}, {columns, 1}};
    }
    return {tensor, {rows, columns}, {row_stride, strides[ndim - 1]}};
}

MatrixView MatrixView::Column(const TensorPtr &tensor) {
    return {ContiguousCopy(tensor), {tensor->NumElements(), 1}, {1, 1}};
}

MatrixView MatrixView::Transposed() const {
    return {tensor_, {dims_[1], dims_[0]}, {strides_[1], strides_[0]}};
}

ConstTensorRef MatrixView::ref() const {
    return {std::as_const(*tensor_).DataPtr(),
            dims_.data(),
            strides_.data(),
            2,
            tensor_->Dtype(),
            dims_[0] * dims_[1],
            tensor_->IsContiguous()};
}

TensorPtr Multiply(const MatrixView &a, const MatrixView &b, const std::vector<int64_t> &dims, const TensorPtr &bias) {
    auto output = Tensor::Empty(dims, a.tensor()->Dtype(), a.tensor()->GetDevice());
    const std::array<int64_t, 2> matrix = {a.rows(), b.columns()};
    const std::array<int64_t, 2> strides = {b.columns(), 1};
    TensorRef ref = Ref(output);
    ref.dims = matrix.data();
    ref.strides = strides.data();
    ref.ndim = 2;
    const TensorPtr row = bias == nullptr ? nullptr : ContiguousCopy(bias);
    Dispatch<kernels::Matmul>(output->GetDevice(), ref, a.ref(), b.ref(),
                              row == nullptr ? ConstTensorRef() : ConstTensorRef(Ref(row)));
    return output;
}

TensorPtr SumChannels(const TensorPtr &input, int64_t outer, int64_t channels, int64_t inner) {
    auto output = Tensor::Empty({channels}, input->Dtype(), input->GetDevice());
    const auto contiguous = ContiguousCopy(input);
    Dispatch<kernels::ChannelSum>(output->GetDevice(), Ref(output), Ref(contiguous), outer, inner);
    return output;
}

void CheckSameDtype(const char *name, const TensorList &inputs, bool allow_integers) {
    const DataType dtype = inputs[0]->Dtype();
    if (!IsFloatingPoint(dtype) && !(allow_integers && IsIntegral(dtype))) {
        Throw<DtypeError>("{}: expected floating-point{} tensors, got {}", name, allow_integers ? " or integer" : "",
                          ToString(dtype));
    }
    for (size_t i = 1; i < inputs.size(); ++i) {
        if (inputs[i]->Dtype() != dtype) {
            Throw<DtypeError>("{}: expected tensors of one data type, got {} for input 0 and {} for input {}", name,
                              ToString(dtype), ToString(inputs[i]->Dtype()), i);
        }
    }
}

}  // namespace infini_train::autograd
