#include "infini_train/include/autograd/softmax.h"

#include <memory>

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/operands.h"
#include "infini_train/src/common/format.h"
#include "infini_train/src/kernels/softmax.h"
#include "infini_train/src/tensor/ref.h"
#include "infini_train/src/tensor/shape.h"

namespace infini_train::autograd {
namespace {

template <class Kernel>
TensorPtr ComputeOutput(const char *name, const TensorList &inputs, int64_t dim) {
    CheckInputs(name, inputs, 1);
    const auto &input = inputs[0];
    if (!IsFloatingPoint(input->Dtype())) {
        Throw<DtypeError>("{}: expected a floating-point tensor, got {}", name, ToString(input->Dtype()));
    }
    const auto at = static_cast<int>(NormalizeDim(dim, input->NumDims(), name));
    const auto contiguous = ContiguousCopy(input);
    auto output = Tensor::EmptyLike(input);
    Dispatch<Kernel>(input->GetDevice(), Ref(output), Ref(contiguous), at);
    return output;
}

template <class Kernel>
TensorPtr ComputeGrad(const char *name, const TensorPtr &grad, const TensorPtr &output, int64_t dim) {
    const auto at = static_cast<int>(NormalizeDim(dim, output->NumDims(), name));
    const auto contiguous_grad = ContiguousCopy(grad);
    const auto contiguous_output = ContiguousCopy(output);
    auto result = Tensor::EmptyLike(output);
    Dispatch<Kernel>(output->GetDevice(), Ref(result), Ref(contiguous_grad), Ref(contiguous_output), at);
    return result;
}

}  // namespace

TensorList Softmax::Forward(const TensorList &inputs) {
    return {ComputeOutput<kernels::SoftmaxForward>(kType, inputs, dim_)};
}

void Softmax::SetupContext(const TensorList & /*inputs*/, const TensorList &outputs) {
    ctx_.SaveForBackward(outputs);
}

TensorList Softmax::Backward(const TensorList &grad_outputs) {
    const auto &grad = grad_outputs[0];
    const auto output = ctx_.GetSavedTensors()[0];
    if (!GradMode::IsEnabled()) {
        return {ComputeGrad<kernels::SoftmaxBackward>(kType, grad, output, dim_)};
    }
    return {output->Mul(grad->Sub(grad->Mul(output)->Sum(dim_, /*keep_dim=*/true)))};
}

TensorList LogSoftmax::Forward(const TensorList &inputs) {
    return {ComputeOutput<kernels::LogSoftmaxForward>(kType, inputs, dim_)};
}

void LogSoftmax::SetupContext(const TensorList & /*inputs*/, const TensorList &outputs) {
    ctx_.SaveForBackward(outputs);
}

TensorList LogSoftmax::Backward(const TensorList &grad_outputs) {
    const auto &grad = grad_outputs[0];
    const auto output = ctx_.GetSavedTensors()[0];
    if (!GradMode::IsEnabled()) {
        return {ComputeGrad<kernels::LogSoftmaxBackward>(kType, grad, output, dim_)};
    }
    return {grad->Sub(output->Exp()->Mul(grad->Sum(dim_, /*keep_dim=*/true)))};
}

}  // namespace infini_train::autograd

namespace infini_train {

TensorPtr Tensor::Softmax(int64_t dim) {
    return std::make_shared<autograd::Softmax>(dim)->Apply({Self()})[0];
}

TensorPtr Tensor::LogSoftmax(int64_t dim) {
    return std::make_shared<autograd::LogSoftmax>(dim)->Apply({Self()})[0];
}

}  // namespace infini_train
