#include "infini_train/include/autograd/linear.h"

#include "infini_train/include/autograd/grad_mode.h"

#include "infini_train/src/autograd/matrix.h"
#include "infini_train/src/autograd/operands.h"
#include "infini_train/src/common/format.h"

namespace infini_train::autograd {

TensorList Linear::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 2, 3);
    CheckSameDtype(kType, inputs, false);
    const auto &input = inputs[0];
    const auto &weight = inputs[1];
    const TensorPtr bias = inputs.size() > 2 ? inputs[2] : nullptr;
    if (input->NumDims() < 1 || weight->NumDims() != 2) {
        Throw<ShapeError>("Linear: expected an input (..., in) and a weight (out, in), got {} and {}",
                          FormatDims(input->Dims()), FormatDims(weight->Dims()));
    }
    if (input->Dims().back() != weight->Dims()[1]) {
        Throw<ShapeError>("Linear: {} and {} don't match: {} against {}", FormatDims(input->Dims()),
                          FormatDims(weight->Dims()), input->Dims().back(), weight->Dims()[1]);
    }
    const int64_t out = weight->Dims()[0];
    if (bias != nullptr && (bias->NumDims() != 1 || bias->Dims()[0] != out)) {
        Throw<ShapeError>("Linear: expected a bias {} for a weight {}, got {}", FormatDims({{out}}),
                          FormatDims(weight->Dims()), FormatDims(bias->Dims()));
    }
    std::vector<int64_t> dims(input->Dims().begin(), input->Dims().end() - 1);
    dims.push_back(out);
    return {Multiply(MatrixView::FoldRows(input), MatrixView::FoldRows(weight).Transposed(), dims, bias)};
}

void Linear::SetupContext(const TensorList &inputs, const TensorList & /*outputs*/) {
    input_dims_ = inputs[0]->Dims();
    weight_dims_ = inputs[1]->Dims();
    has_bias_ = inputs.size() > 2;
    ctx_.SaveForBackward(
        {ctx_.needs_input_grad(1) ? inputs[0] : nullptr, ctx_.needs_input_grad(0) ? inputs[1] : nullptr});
}

TensorList Linear::Backward(const TensorList &grad_outputs) {
    const bool need_input = ctx_.needs_input_grad(0), need_weight = ctx_.needs_input_grad(1);
    const bool need_bias = has_bias_ && ctx_.needs_input_grad(2);
    const TensorList saved = ctx_.GetSavedTensors();
    const auto &input = saved[0];
    const auto &weight = saved[1];
    const auto &grad = grad_outputs[0];
    int64_t rows = 1;
    for (size_t i = 0; i + 1 < input_dims_.size(); ++i) {
        rows *= input_dims_[i];
    }
    const int64_t out = weight_dims_[0], in = weight_dims_[1];

    TensorList grads(has_bias_ ? 3 : 2);
    if (GradMode::IsEnabled()) {
        const auto matrix = grad->Reshape({rows, out});
        grads[0] = need_input ? grad->Matmul(weight) : nullptr;
        grads[1] = need_weight ? matrix->Transpose(0, 1)->Matmul(input->Reshape({rows, in})) : nullptr;
        if (need_bias) {
            grads[2] = matrix->Sum(0);
        }
        return grads;
    }
    const auto matrix = MatrixView::FoldRows(grad);
    if (need_input) {
        grads[0] = Multiply(matrix, MatrixView::FoldRows(weight), input_dims_);
    }
    if (need_weight) {
        grads[1] = Multiply(matrix.Transposed(), MatrixView::FoldRows(input), weight_dims_);
    }
    if (need_bias) {
        grads[2] = SumChannels(matrix.tensor(), rows, out, 1);
    }
    return grads;
}

}  // namespace infini_train::autograd
