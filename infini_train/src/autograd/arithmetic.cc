#include "infini_train/include/autograd/elementwise.h"
#include "infini_train/include/core/dispatcher.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/operands.h"
#include "infini_train/src/autograd/promotion.h"
#include "infini_train/src/autograd/sum_to.h"
#include "infini_train/src/common/format.h"
#include "infini_train/src/kernels/elementwise.h"
#include "infini_train/src/tensor/ref.h"
#include "infini_train/src/tensor/shape.h"

namespace infini_train {
namespace autograd {

using kernels::BinaryOp;

Add::Add() : BinaryFunction(kType, BinaryOp::kAdd) {}
TensorPtr Add::OperandGrad(size_t /*i*/, const TensorPtr &grad) {
    return grad;
}

Sub::Sub() : BinaryFunction(kType, BinaryOp::kSub) {}
TensorPtr Sub::OperandGrad(size_t i, const TensorPtr &grad) {
    return i == 0 ? grad : grad->Neg();
}

Mul::Mul() : BinaryFunction(kType, BinaryOp::kMul) {}
void Mul::Save(const TensorList &inputs, const TensorList & /*outputs*/) {
    ctx_.SaveForBackward(
        {ctx_.needs_input_grad(1) ? inputs[0] : nullptr, ctx_.needs_input_grad(0) ? inputs[1] : nullptr});
}
TensorPtr Mul::OperandGrad(size_t i, const TensorPtr &grad) {
    return grad->Mul(ctx_.GetSavedTensors()[1 - i]);
}

Div::Div() : BinaryFunction(kType, BinaryOp::kDiv) {}
void Div::Save(const TensorList &inputs, const TensorList &outputs) {
    ctx_.SaveForBackward({ctx_.needs_input_grad(1) ? outputs[0] : nullptr, inputs[1]});
}
TensorPtr Div::OperandGrad(size_t i, const TensorPtr &grad) {
    const TensorList saved = ctx_.GetSavedTensors();
    // d(a / b) / db = -(a / b) / b
    return i == 0 ? grad->Div(saved[1]) : grad->Mul(saved[0])->Div(saved[1])->Neg();
}

namespace {

// The gradient where `mine` won, half of it at a tie.
TensorPtr SharedGrad(const TensorPtr &grad, const TensorPtr &lost, const TensorPtr &tied) {
    const TensorPtr zero = Tensor::FromScalar(0, grad->Dtype(), grad->GetDevice());
    return zero->Where(lost, grad->Mul(0.5)->Where(tied, grad));
}

}  // namespace

Maximum::Maximum() : BinaryFunction(kType, BinaryOp::kMaximum) {}
void Maximum::Save(const TensorList &inputs, const TensorList & /*outputs*/) {
    ctx_.SaveForBackward(inputs);
}
TensorPtr Maximum::OperandGrad(size_t i, const TensorPtr &grad) {
    const TensorList saved = ctx_.GetSavedTensors();
    return SharedGrad(grad, saved[i]->Lt(saved[1 - i]), saved[0]->Equals(saved[1]));
}

Minimum::Minimum() : BinaryFunction(kType, BinaryOp::kMinimum) {}
void Minimum::Save(const TensorList &inputs, const TensorList & /*outputs*/) {
    ctx_.SaveForBackward(inputs);
}
TensorPtr Minimum::OperandGrad(size_t i, const TensorPtr &grad) {
    const TensorList saved = ctx_.GetSavedTensors();
    return SharedGrad(grad, saved[i]->Gt(saved[1 - i]), saved[0]->Equals(saved[1]));
}

AddScalar::AddScalar(Scalar other) : ScalarFunction(kType, BinaryOp::kAdd, other) {}
TensorPtr AddScalar::InputGrad(const TensorPtr &grad) {
    return grad;
}

SubScalar::SubScalar(Scalar other) : ScalarFunction(kType, BinaryOp::kSub, other) {}
TensorPtr SubScalar::InputGrad(const TensorPtr &grad) {
    return grad;
}

RSubScalar::RSubScalar(Scalar other) : ScalarFunction(kType, BinaryOp::kSub, other, /*scalar_first=*/true) {}
TensorPtr RSubScalar::InputGrad(const TensorPtr &grad) {
    return grad->Neg();
}

MulScalar::MulScalar(Scalar other) : ScalarFunction(kType, BinaryOp::kMul, other) {}
TensorPtr MulScalar::InputGrad(const TensorPtr &grad) {
    return grad->Mul(other_);
}

DivScalar::DivScalar(Scalar other) : ScalarFunction(kType, BinaryOp::kDiv, other) {}
TensorPtr DivScalar::InputGrad(const TensorPtr &grad) {
    return grad->Div(other_);
}

TensorList Where::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 3);
    const Tensor &condition = *inputs[0];
    const Tensor &a = *inputs[1];
    const Tensor &b = *inputs[2];
    if (condition.Dtype() != DataType::kBOOL) {
        Throw<DtypeError>("Where: expected a bool condition, got {}", ToString(condition.Dtype()));
    }
    const auto values = BroadcastDims(a.Dims(), b.Dims(), kType);
    auto output =
        Tensor::Empty(BroadcastDims(condition.Dims(), values, kType), ResultType(a, b), condition.GetDevice());
    Dispatch<kernels::Where>(condition.GetDevice(), Ref(output), Ref(condition), Ref(a), Ref(b));
    return {std::move(output)};
}

void Where::SetupContext(const TensorList &inputs, const TensorList & /*outputs*/) {
    ctx_.SaveForBackward({inputs[0]});
    for (size_t i = 0; i < 2; ++i) {
        dims_[i] = inputs[i + 1]->Dims();
        dtypes_[i] = inputs[i + 1]->Dtype();
    }
}

TensorList Where::Backward(const TensorList &grad_outputs) {
    const TensorPtr &grad = grad_outputs[0];
    const TensorPtr condition = ctx_.GetSavedTensors()[0];
    const TensorPtr zero = Tensor::FromScalar(0, grad->Dtype(), grad->GetDevice());
    TensorList grads(3);
    for (size_t i = 0; i < 2; ++i) {
        if (ctx_.needs_input_grad(i + 1)) {
            const TensorPtr own = i == 0 ? grad->Where(condition, zero) : zero->Where(condition, grad);
            grads[i + 1] = SumTo(own, dims_[i])->To(dtypes_[i]);
        }
    }
    return grads;
}

}  // namespace autograd

TensorPtr Tensor::Add(const TensorPtr &other) {
    return std::make_shared<autograd::Add>()->Apply({Self(), other})[0];
}
TensorPtr Tensor::Add(Scalar other) {
    return std::make_shared<autograd::AddScalar>(other)->Apply({Self()})[0];
}
TensorPtr Tensor::Sub(const TensorPtr &other) {
    return std::make_shared<autograd::Sub>()->Apply({Self(), other})[0];
}
TensorPtr Tensor::Sub(Scalar other) {
    return std::make_shared<autograd::SubScalar>(other)->Apply({Self()})[0];
}
TensorPtr Tensor::Mul(const TensorPtr &other) {
    return std::make_shared<autograd::Mul>()->Apply({Self(), other})[0];
}
TensorPtr Tensor::Mul(Scalar other) {
    return std::make_shared<autograd::MulScalar>(other)->Apply({Self()})[0];
}
TensorPtr Tensor::Div(const TensorPtr &other) {
    return std::make_shared<autograd::Div>()->Apply({Self(), other})[0];
}
TensorPtr Tensor::Div(Scalar other) {
    return std::make_shared<autograd::DivScalar>(other)->Apply({Self()})[0];
}
TensorPtr Tensor::Maximum(const TensorPtr &other) {
    return std::make_shared<autograd::Maximum>()->Apply({Self(), other})[0];
}
TensorPtr Tensor::Minimum(const TensorPtr &other) {
    return std::make_shared<autograd::Minimum>()->Apply({Self(), other})[0];
}
TensorPtr Tensor::Where(const TensorPtr &condition, const TensorPtr &other) {
    return std::make_shared<autograd::Where>()->Apply({condition, Self(), other})[0];
}

TensorPtr operator+(const TensorPtr &a, const TensorPtr &b) {
    return a->Add(b);
}
TensorPtr operator+(const TensorPtr &a, Scalar b) {
    return a->Add(b);
}
TensorPtr operator+(Scalar a, const TensorPtr &b) {
    return b->Add(a);
}
TensorPtr operator-(const TensorPtr &a, const TensorPtr &b) {
    return a->Sub(b);
}
TensorPtr operator-(const TensorPtr &a, Scalar b) {
    return a->Sub(b);
}
TensorPtr operator-(Scalar a, const TensorPtr &b) {
    return std::make_shared<autograd::RSubScalar>(a)->Apply({b})[0];
}
TensorPtr operator*(const TensorPtr &a, const TensorPtr &b) {
    return a->Mul(b);
}
TensorPtr operator*(const TensorPtr &a, Scalar b) {
    return a->Mul(b);
}
TensorPtr operator*(Scalar a, const TensorPtr &b) {
    return b->Mul(a);
}
TensorPtr operator/(const TensorPtr &a, const TensorPtr &b) {
    return a->Div(b);
}
TensorPtr operator/(const TensorPtr &a, Scalar b) {
    return a->Div(b);
}
TensorPtr operator/(Scalar a, const TensorPtr &b) {
    return b->Reciprocal()->Mul(a);
}

}  // namespace infini_train
