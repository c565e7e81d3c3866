#include "infini_train/include/autograd/activations.h"

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/fused.h"
#include "infini_train/src/autograd/operands.h"
#include "infini_train/src/common/format.h"
#include "infini_train/src/kernels/elementwise.h"

namespace infini_train {
namespace autograd {

using kernels::BinaryOp;
using kernels::UnaryOp;

Sigmoid::Sigmoid() : UnaryFunction(kType, UnaryOp::kSigmoid, Keep::kOutput) {}
TensorPtr Sigmoid::InputGrad(const TensorPtr &grad, const TensorPtr &y) {
    return GradMode::IsEnabled() ? grad->Mul(y->Mul(Scalar(1) - y))
                                 : FusedBackward(BinaryOp::kSigmoidBackward, grad, y);
}

Relu::Relu() : UnaryFunction(kType, UnaryOp::kRelu, Keep::kOutput, Result::kSameNoBool) {}
TensorPtr Relu::InputGrad(const TensorPtr &grad, const TensorPtr &y) {
    return GradMode::IsEnabled() ? Tensor::FromScalar(0, y->Dtype(), y->GetDevice())->Where(y->Le(Scalar(0)), grad)
                                 : FusedBackward(BinaryOp::kReluBackward, grad, y);
}

Silu::Silu() : UnaryFunction(kType, UnaryOp::kSilu, Keep::kInput) {}
TensorPtr Silu::InputGrad(const TensorPtr &grad, const TensorPtr &x) {
    if (!GradMode::IsEnabled()) {
        return FusedBackward(BinaryOp::kSiluBackward, grad, x);
    }
    const TensorPtr gate = x->Sigmoid();
    return grad->Mul(gate->Mul(x->Mul(Scalar(1) - gate)->Add(1)));
}

namespace {

// sqrt(2 / pi) and the cubic term's factor, of the approximation through tanh.
constexpr double kTanhScale = 0.79788456080286536;
constexpr double kTanhCubic = 0.044715;

TensorPtr NormalDensity(const TensorPtr &x) {
    return x->Square()->Mul(-0.5)->Exp()->Mul(0.3989422804014327);
}

// The distribution function of the standard normal, which the exact GELU's derivative has in it.
class NormalDistribution : public UnaryFunction {
public:
    NormalDistribution() : UnaryFunction("NormalDistribution", UnaryOp::kNormalDistribution, Keep::kInput) {}

protected:
    TensorPtr InputGrad(const TensorPtr &grad, const TensorPtr &x) override { return grad->Mul(NormalDensity(x)); }
};

TensorPtr ExactGeluDerivative(const TensorPtr &x) {
    return std::make_shared<NormalDistribution>()->Apply({x})[0]->Add(x->Mul(NormalDensity(x)));
}

TensorPtr TanhGeluDerivative(const TensorPtr &x) {
    const TensorPtr square = x->Square();
    const TensorPtr gate = square->Mul(kTanhCubic)->Add(1)->Mul(x)->Mul(2 * kTanhScale)->Sigmoid();
    const TensorPtr slope = square->Mul(3 * kTanhCubic)->Add(1)->Mul(2 * kTanhScale);
    return gate->Add(x->Mul(slope)->Mul(gate->Mul(Scalar(1) - gate)));
}

}  // namespace

Gelu::Gelu(bool tanh_approximation)
    : UnaryFunction(kType, tanh_approximation ? UnaryOp::kGeluTanh : UnaryOp::kGelu, Keep::kInput),
      tanh_approximation_(tanh_approximation) {}

TensorPtr Gelu::InputGrad(const TensorPtr &grad, const TensorPtr &x) {
    if (!GradMode::IsEnabled()) {
        return FusedBackward(tanh_approximation_ ? BinaryOp::kGeluTanhBackward : BinaryOp::kGeluBackward, grad, x);
    }
    return grad->Mul(tanh_approximation_ ? TanhGeluDerivative(x) : ExactGeluDerivative(x));
}

TensorList SwiGLU::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 2);
    const auto &gate = inputs[0];
    const auto &up = inputs[1];
    if (!IsFloatingPoint(gate->Dtype()) || up->Dtype() != gate->Dtype()) {
        Throw<DtypeError>("{}: expected gate and up of one floating-point type, got {} and {}", kType,
                          ToString(gate->Dtype()), ToString(up->Dtype()));
    }
    if (up->Dims() != gate->Dims()) {
        Throw<ShapeError>("{}: expected gate and up of the same dims, got {} and {}", kType, FormatDims(gate->Dims()),
                          FormatDims(up->Dims()));
    }
    return {gate->Silu()->Mul(up)};
}

void SwiGLU::SetupContext(const TensorList &inputs, const TensorList & /*outputs*/) {
    ctx_.SaveForBackward(inputs);
}

TensorList SwiGLU::Backward(const TensorList &grad_outputs) {
    const TensorList saved = ctx_.GetSavedTensors();
    const TensorPtr &gate = saved[0], &up = saved[1], &grad = grad_outputs[0];
    const TensorPtr s = gate->Sigmoid();
    return {ctx_.needs_input_grad(0) ? grad->Mul(up)->Mul(s->Mul(gate->Mul(Scalar(1) - s)->Add(1))) : nullptr,
            ctx_.needs_input_grad(1) ? grad->Mul(gate->Mul(s)) : nullptr};
}

}  // namespace autograd

TensorPtr Tensor::Sigmoid() {
    return std::make_shared<autograd::Sigmoid>()->Apply({Self()})[0];
}
TensorPtr Tensor::Relu() {
    return std::make_shared<autograd::Relu>()->Apply({Self()})[0];
}
TensorPtr Tensor::Silu() {
    return std::make_shared<autograd::Silu>()->Apply({Self()})[0];
}
TensorPtr Tensor::Gelu(bool tanh_approximation) {
    return std::make_shared<autograd::Gelu>(tanh_approximation)->Apply({Self()})[0];
}

}  // namespace infini_train
