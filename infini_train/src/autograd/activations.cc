#include "infini_train/include/autograd/activations.h"

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/core/dispatcher.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/fused.h"
#include "infini_train/src/autograd/operands.h"
#include "infini_train/src/autograd/pieces.h"
#include "infini_train/src/common/format.h"
#include "infini_train/src/kernels/elementwise.h"
#include "infini_train/src/kernels/swiglu.h"
#include "infini_train/src/tensor/ref.h"

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

namespace {

// For the gradients of gate and up: of their own or, if they are the halves of one contiguous tensor's last dimension,
// the halves of another one, so that they are its gradient already.
TensorList NewGrads(const Tensor &gate, const Tensor &up) {
    if (gate.NumDims() > 0 && gate.NumElements() > 0 && gate.storage() == up.storage()) {
        auto dims = gate.Dims();
        const int64_t n = dims.back();
        const auto last = static_cast<int64_t>(dims.size()) - 1;
        dims.back() *= 2;
        const auto memory = Tensor::Empty(dims, gate.Dtype(), gate.GetDevice());
        const DimSlice first{last, 0, n, 1}, second{last, n, n, 1};
        const TensorList halves{SliceView(*memory, {&first, 1}), SliceView(*memory, {&second, 1})};
        if (gate.Strides() == halves[0]->Strides() && up.Strides() == gate.Strides() &&
            up.StorageOffset() == gate.StorageOffset() + n) {
            return halves;
        }
    }
    return {Tensor::Empty(gate.Dims(), gate.Dtype(), gate.GetDevice()),
            Tensor::Empty(up.Dims(), up.Dtype(), up.GetDevice())};
}

}  // namespace

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
    auto y = Tensor::Empty(gate->Dims(), gate->Dtype(), gate->GetDevice());
    Dispatch<kernels::SwiGluForward>(gate->GetDevice(), Ref(y), Ref(gate), Ref(up));
    return {y};
}

void SwiGLU::SetupContext(const TensorList &inputs, const TensorList & /*outputs*/) {
    ctx_.SaveForBackward(inputs);
}

TensorList SwiGLU::Backward(const TensorList &grad_outputs) {
    const TensorList saved = ctx_.GetSavedTensors();
    const TensorPtr &gate = saved[0], &up = saved[1], &grad = grad_outputs[0];
    if (!GradMode::IsEnabled()) {
        TensorList grads = NewGrads(*gate, *up);
        Dispatch<kernels::SwiGluBackward>(gate->GetDevice(), Ref(grads[0]), Ref(grads[1]), Ref(grad), Ref(gate),
                                          Ref(up));
        return grads;
    }
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
