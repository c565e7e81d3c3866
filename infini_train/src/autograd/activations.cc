#include "infini_train/include/autograd/activations.h"

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/fused.h"
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
