#include "infini_train/include/autograd/outer.h"

#include <memory>

#include "infini_train/src/autograd/matrix.h"
#include "infini_train/src/autograd/operands.h"
#include "infini_train/src/common/format.h"
#include "infini_train/src/tensor/shape.h"

namespace infini_train::autograd {

TensorList Outer::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 2);
    CheckSameDtype(kType, inputs, true);
    const auto &a = inputs[0];
    const auto &b = inputs[1];
    if (a->NumDims() != 1 || b->NumDims() != 1) {
        Throw<ShapeError>("Outer: expected two vectors, got {} and {}", FormatDims(a->Dims()), FormatDims(b->Dims()));
    }
    const std::vector<int64_t> dims = {a->NumElements(), b->NumElements()};
    const DataType dtype = a->Dtype();
    if (IsFloatingPoint(dtype) || dtype == DataType::kINT32 || dtype == DataType::kINT64) {
        return {Multiply(MatrixView::Column(a), MatrixView::FoldRows(b), dims)};
    }
    const auto product = Multiply(MatrixView::Column(CastCopy(*a, DataType::kINT64)),
                                  MatrixView::FoldRows(CastCopy(*b, DataType::kINT64)), dims);
    return {CastCopy(*product, dtype)};
}

void Outer::SetupContext(const TensorList &inputs, const TensorList & /*outputs*/) {
    ctx_.SaveForBackward(
        {ctx_.needs_input_grad(1) ? inputs[0] : nullptr, ctx_.needs_input_grad(0) ? inputs[1] : nullptr});
}

TensorList Outer::Backward(const TensorList &grad_outputs) {
    const auto &grad = grad_outputs[0];
    const TensorList saved = ctx_.GetSavedTensors();
    return {ctx_.needs_input_grad(0) ? grad->Matmul(saved[1]) : nullptr,
            ctx_.needs_input_grad(1) ? saved[0]->Matmul(grad) : nullptr};
}

}  // namespace infini_train::autograd

namespace infini_train {

TensorPtr Tensor::Outer(const TensorPtr &other) {
    return std::make_shared<autograd::Outer>()->Apply({Self(), other})[0];
}

}  // namespace infini_train
