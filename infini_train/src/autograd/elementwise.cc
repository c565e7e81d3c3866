#include "infini_train/include/autograd/elementwise.h"

#include <cstdint>
#include <limits>

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/core/dispatcher.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/fused.h"
#include "infini_train/src/autograd/operands.h"
#include "infini_train/src/autograd/promotion.h"
#include "infini_train/src/common/format.h"
#include "infini_train/src/kernels/elementwise.h"
#include "infini_train/src/tensor/ref.h"

namespace infini_train {
namespace autograd {

using kernels::BinaryOp;
using kernels::UnaryOp;

// Each derivative is one kernel, or, where it will be differentiated itself, made of differentiable operators.

Neg::Neg() : UnaryFunction(kType, UnaryOp::kNeg, Keep::kNothing, Result::kSameNoBool) {}
TensorPtr Neg::InputGrad(const TensorPtr &grad, const TensorPtr & /*kept*/) {
    return grad->Neg();
}

Reciprocal::Reciprocal() : UnaryFunction(kType, UnaryOp::kReciprocal, Keep::kOutput) {}
TensorPtr Reciprocal::InputGrad(const TensorPtr &grad, const TensorPtr &y) {
    return GradMode::IsEnabled() ? grad->Mul(y->Square())->Neg()
                                 : FusedBackward(BinaryOp::kReciprocalBackward, grad, y);
}

Sin::Sin() : UnaryFunction(kType, UnaryOp::kSin, Keep::kInput) {}
TensorPtr Sin::InputGrad(const TensorPtr &grad, const TensorPtr &x) {
    return GradMode::IsEnabled() ? grad->Mul(x->Cos()) : FusedBackward(BinaryOp::kSinBackward, grad, x);
}

Cos::Cos() : UnaryFunction(kType, UnaryOp::kCos, Keep::kInput) {}
TensorPtr Cos::InputGrad(const TensorPtr &grad, const TensorPtr &x) {
    return GradMode::IsEnabled() ? grad->Mul(x->Sin())->Neg() : FusedBackward(BinaryOp::kCosBackward, grad, x);
}

Tanh::Tanh() : UnaryFunction(kType, UnaryOp::kTanh, Keep::kOutput) {}
TensorPtr Tanh::InputGrad(const TensorPtr &grad, const TensorPtr &y) {
    return GradMode::IsEnabled() ? grad->Mul(Scalar(1) - y->Square()) : FusedBackward(BinaryOp::kTanhBackward, grad, y);
}

Rsqrt::Rsqrt() : UnaryFunction(kType, UnaryOp::kRsqrt, Keep::kOutput) {}
TensorPtr Rsqrt::InputGrad(const TensorPtr &grad, const TensorPtr &y) {
    return GradMode::IsEnabled() ? grad->Mul(-0.5)->Mul(y->Square()->Mul(y))
                                 : FusedBackward(BinaryOp::kRsqrtBackward, grad, y);
}

Exp::Exp() : UnaryFunction(kType, UnaryOp::kExp, Keep::kOutput) {}
TensorPtr Exp::InputGrad(const TensorPtr &grad, const TensorPtr &y) {
    return grad->Mul(y);
}

Log::Log() : UnaryFunction(kType, UnaryOp::kLog, Keep::kInput) {}
TensorPtr Log::InputGrad(const TensorPtr &grad, const TensorPtr &x) {
    return grad->Div(x);
}

Sqrt::Sqrt() : UnaryFunction(kType, UnaryOp::kSqrt, Keep::kOutput) {}
TensorPtr Sqrt::InputGrad(const TensorPtr &grad, const TensorPtr &y) {
    return GradMode::IsEnabled() ? grad->Div(y->Mul(2)) : FusedBackward(BinaryOp::kSqrtBackward, grad, y);
}

Square::Square() : UnaryFunction(kType, UnaryOp::kSquare, Keep::kInput, Result::kSame) {}
TensorPtr Square::InputGrad(const TensorPtr &grad, const TensorPtr &x) {
    return GradMode::IsEnabled() ? grad->Mul(x->Mul(2)) : FusedBackward(BinaryOp::kSquareBackward, grad, x);
}

namespace {

// -1, 0 or 1.
TensorPtr Sign(const TensorPtr &x) {
    return x->Gt(Scalar(0))->To(x->Dtype())->Sub(x->Lt(Scalar(0))->To(x->Dtype()));
}

}  // namespace

Abs::Abs() : UnaryFunction(kType, UnaryOp::kAbs, Keep::kInput, Result::kSame) {}
TensorPtr Abs::InputGrad(const TensorPtr &grad, const TensorPtr &x) {
    return GradMode::IsEnabled() ? grad->Mul(Sign(x)) : FusedBackward(BinaryOp::kAbsBackward, grad, x);
}

namespace {

// The operators that are special powers, which are faster and more precise.
const struct {
    double exponent;
    UnaryOp op;
} kPowers[] = {{2, UnaryOp::kSquare},
               {3, UnaryOp::kCube},
               {0.5, UnaryOp::kSqrt},
               {-1, UnaryOp::kReciprocal},
               {-0.5, UnaryOp::kRsqrt}};

}  // namespace

TensorList Pow::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 1);
    const Tensor &input = *inputs[0];
    const DataType dtype = ResultType(input, exponent_);
    if (!IsFloatingPoint(dtype) && exponent_.To<int64_t>() < 0) {
        Throw<ValueError>("Pow: expected an exponent >= 0 for {}, got {}", ToString(dtype), exponent_.ToString());
    }
    auto output = Tensor::EmptyLike(input, dtype);
    if (IsFloatingPoint(dtype)) {
        for (const auto &power : kPowers) {
            if (exponent_.To<double>() == power.exponent) {
                Dispatch<kernels::Unary>(input.GetDevice(), Ref(output), Ref(input), power.op);
                return {std::move(output)};
            }
        }
    }
    Dispatch<kernels::BinaryScalar>(input.GetDevice(), Ref(output), Ref(input), exponent_, BinaryOp::kPow);
    return {std::move(output)};
}

void Pow::SetupContext(const TensorList &inputs, const TensorList & /*outputs*/) {
    ctx_.SaveForBackward(inputs);
}

TensorList Pow::Backward(const TensorList &grad_outputs) {
    if (!ctx_.needs_input_grad(0)) {
        return {nullptr};
    }
    const TensorPtr x = ctx_.GetSavedTensors()[0];
    const auto exponent = exponent_.To<double>();
    if (exponent == 0) {
        return {Tensor::ZerosLike(x)};
    }
    if (exponent == 2 && !GradMode::IsEnabled()) {
        return {FusedBackward(BinaryOp::kSquareBackward, grad_outputs[0], x)};
    }
    return {grad_outputs[0]->Mul(x->Pow(exponent - 1)->Mul(exponent))};
}

namespace {

Scalar LowestLimit(DataType dtype) {
    if (IsFloatingPoint(dtype)) {
        return -std::numeric_limits<double>::infinity();
    }
    return dtype == DataType::kUINT64 ? Scalar(0) : Scalar(std::numeric_limits<int64_t>::min());
}

Scalar HighestLimit(DataType dtype) {
    if (IsFloatingPoint(dtype)) {
        return std::numeric_limits<double>::infinity();
    }
    return dtype == DataType::kUINT64 ? Scalar(std::numeric_limits<uint64_t>::max())
                                      : Scalar(std::numeric_limits<int64_t>::max());
}

}  // namespace

Clamp::Clamp(std::optional<Scalar> min, std::optional<Scalar> max) : Function(kType), min_(min), max_(max) {
    if (!min_ && !max_) {
        throw ValueError("Clamp: expected at least one limit, got none");
    }
}

TensorList Clamp::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 1);
    const Tensor &input = *inputs[0];
    DataType dtype = input.Dtype();
    for (const auto &limit : {min_, max_}) {
        if (limit && (limit->IsFloatingPoint() || dtype == DataType::kBOOL)) {
            dtype = ResultType(input, *limit);
        }
    }
    auto output = Tensor::EmptyLike(input, dtype);
    Dispatch<kernels::Clamp>(input.GetDevice(), Ref(output), Ref(input), min_.value_or(LowestLimit(dtype)),
                             max_.value_or(HighestLimit(dtype)));
    return {std::move(output)};
}

void Clamp::SetupContext(const TensorList &inputs, const TensorList & /*outputs*/) {
    ctx_.SaveForBackward(inputs);
}

TensorList Clamp::Backward(const TensorList &grad_outputs) {
    if (!ctx_.needs_input_grad(0)) {
        return {nullptr};
    }
    const TensorPtr x = ctx_.GetSavedTensors()[0];
    const Scalar low = min_.value_or(LowestLimit(x->Dtype()));
    const Scalar high = max_.value_or(HighestLimit(x->Dtype()));
    if (GradMode::IsEnabled()) {
        const TensorPtr inside = x->Ge(low)->And(x->Le(high));
        return {grad_outputs[0]->Where(inside, Tensor::FromScalar(0, x->Dtype(), x->GetDevice()))};
    }
    auto grad = Tensor::EmptyLike(x);
    Dispatch<kernels::ClampBackward>(x->GetDevice(), Ref(grad), Ref(grad_outputs[0]), Ref(x), low, high);
    return {std::move(grad)};
}

}  // namespace autograd

TensorPtr Tensor::Neg() {
    return std::make_shared<autograd::Neg>()->Apply({Self()})[0];
}
TensorPtr Tensor::Reciprocal() {
    return std::make_shared<autograd::Reciprocal>()->Apply({Self()})[0];
}
TensorPtr Tensor::Sin() {
    return std::make_shared<autograd::Sin>()->Apply({Self()})[0];
}
TensorPtr Tensor::Cos() {
    return std::make_shared<autograd::Cos>()->Apply({Self()})[0];
}
TensorPtr Tensor::Tanh() {
    return std::make_shared<autograd::Tanh>()->Apply({Self()})[0];
}
TensorPtr Tensor::Exp() {
    return std::make_shared<autograd::Exp>()->Apply({Self()})[0];
}
TensorPtr Tensor::Log() {
    return std::make_shared<autograd::Log>()->Apply({Self()})[0];
}
TensorPtr Tensor::Sqrt() {
    return std::make_shared<autograd::Sqrt>()->Apply({Self()})[0];
}
TensorPtr Tensor::Rsqrt() {
    return std::make_shared<autograd::Rsqrt>()->Apply({Self()})[0];
}
TensorPtr Tensor::Square() {
    return std::make_shared<autograd::Square>()->Apply({Self()})[0];
}
TensorPtr Tensor::Abs() {
    return std::make_shared<autograd::Abs>()->Apply({Self()})[0];
}
TensorPtr Tensor::Pow(Scalar exponent) {
    return std::make_shared<autograd::Pow>(exponent)->Apply({Self()})[0];
}
TensorPtr Tensor::Clamp(std::optional<Scalar> min, std::optional<Scalar> max) {
    return std::make_shared<autograd::Clamp>(min, max)->Apply({Self()})[0];
}

TensorPtr operator-(const TensorPtr &a) {
    return a->Neg();
}

}  // namespace infini_train
