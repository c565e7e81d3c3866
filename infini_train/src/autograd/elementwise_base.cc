#include "infini_train/include/autograd/elementwise_base.h"

#include "infini_train/include/core/dispatcher.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/operands.h"
#include "infini_train/src/autograd/promotion.h"
#include "infini_train/src/autograd/sum_to.h"
#include "infini_train/src/common/format.h"
#include "infini_train/src/kernels/elementwise.h"
#include "infini_train/src/tensor/ref.h"
#include "infini_train/src/tensor/shape.h"

namespace infini_train::autograd {
namespace {

TensorPtr EmptyOutput(const Tensor &a, const Tensor &b, DataType dtype, const char *name) {
    return a.layout() == b.layout() || a.Dims() == b.Dims()
               ? Tensor::EmptyLike(a, dtype)
               : Tensor::Empty(BroadcastDims(a.Dims(), b.Dims(), name), dtype, a.GetDevice());
}

}  // namespace

UnaryFunction::UnaryFunction(const char *type, kernels::UnaryOp op, Keep keep, Result result)
    : Function(type), op_(op), keep_(keep), result_(result) {}

TensorList UnaryFunction::Forward(const TensorList &inputs) {
    CheckInputs(type().c_str(), inputs, 1);
    const Tensor &input = *inputs[0];
    if (result_ == Result::kSameNoBool && input.Dtype() == DataType::kBOOL) {
        Throw<DtypeError>("{}: expected numbers, got bool", type());
    }
    const DataType dtype = result_ == Result::kFloat32 ? FloatType(input.Dtype()) : input.Dtype();
    auto output = Tensor::EmptyLike(input, dtype);
    Dispatch<kernels::Unary>(input.GetDevice(), Ref(output), Ref(input), op_);
    return {std::move(output)};
}

void UnaryFunction::SetupContext(const TensorList &inputs, const TensorList &outputs) {
    if (keep_ != Keep::kNothing) {
        ctx_.SaveForBackward(keep_ == Keep::kInput ? inputs : outputs);
    }
}

TensorList UnaryFunction::Backward(const TensorList &grad_outputs) {
    if (!ctx_.needs_input_grad(0)) {
        return {nullptr};
    }
    return {InputGrad(grad_outputs[0], keep_ == Keep::kNothing ? nullptr : ctx_.GetSavedTensors()[0])};
}

BinaryFunction::BinaryFunction(const char *type, kernels::BinaryOp op) : Function(type), op_(op) {}

TensorList BinaryFunction::Forward(const TensorList &inputs) {
    CheckInputs(type().c_str(), inputs, 2);
    const Tensor &a = *inputs[0];
    const Tensor &b = *inputs[1];
    DataType dtype = ResultType(a, b);
    if (op_ == kernels::BinaryOp::kSub && dtype == DataType::kBOOL) {
        Throw<DtypeError>("{}: expected numbers, got bool and bool; NotEquals tells where they differ", type());
    }
    if (op_ == kernels::BinaryOp::kDiv) {
        dtype = FloatType(dtype);
    }
    auto output = EmptyOutput(a, b, dtype, type().c_str());
    Dispatch<kernels::Binary>(a.GetDevice(), Ref(output), Ref(a), Ref(b), op_);
    return {std::move(output)};
}

void BinaryFunction::SetupContext(const TensorList &inputs, const TensorList &outputs) {
    for (size_t i = 0; i < 2; ++i) {
        if (!ctx_.needs_input_grad(i)) {
            continue;
        }
        operands_[i].dtype = inputs[i]->Dtype();
        operands_[i].is_broadcast = inputs[i]->Dims() != outputs[0]->Dims();
        if (operands_[i].is_broadcast) {
            operands_[i].dims = inputs[i]->Dims();
        }
    }
    Save(inputs, outputs);
}

TensorList BinaryFunction::Backward(const TensorList &grad_outputs) {
    TensorList grads(2);
    for (size_t i = 0; i < 2; ++i) {
        if (!ctx_.needs_input_grad(i)) {
            continue;
        }
        grads[i] = OperandGrad(i, grad_outputs[0]);
        if (operands_[i].is_broadcast) {
            grads[i] = SumTo(grads[i], operands_[i].dims);
        }
        if (grads[i]->Dtype() != operands_[i].dtype) {
            grads[i] = grads[i]->To(operands_[i].dtype);
        }
    }
    return grads;
}

ScalarFunction::ScalarFunction(const char *type, kernels::BinaryOp op, Scalar other, bool scalar_first)
    : Function(type), other_(other), op_(op), scalar_first_(scalar_first) {}

TensorList ScalarFunction::Forward(const TensorList &inputs) {
    CheckInputs(type().c_str(), inputs, 1);
    const Tensor &input = *inputs[0];
    DataType dtype = ResultType(input, other_);
    if (op_ == kernels::BinaryOp::kSub && dtype == DataType::kBOOL) {
        Throw<DtypeError>("{}: expected numbers, got bool and bool", type());
    }
    if (op_ == kernels::BinaryOp::kDiv) {
        dtype = FloatType(dtype);
    }
    auto output = Tensor::EmptyLike(input, dtype);
    if (scalar_first_) {
        Dispatch<kernels::ScalarBinary>(input.GetDevice(), Ref(output), other_, Ref(input), op_);
    } else {
        Dispatch<kernels::BinaryScalar>(input.GetDevice(), Ref(output), Ref(input), other_, op_);
    }
    return {std::move(output)};
}

TensorList ScalarFunction::Backward(const TensorList &grad_outputs) {
    return {ctx_.needs_input_grad(0) ? InputGrad(grad_outputs[0]) : nullptr};
}

CompareFunction::CompareFunction(const char *type, kernels::CompareOp op, bool exchanged)
    : Function(type), op_(op), exchanged_(exchanged), has_scalar_(false) {}

CompareFunction::CompareFunction(const char *type, kernels::CompareOp op, Scalar other, bool exchanged)
    : Function(type), op_(op), exchanged_(exchanged), has_scalar_(true), other_(other) {}

TensorList CompareFunction::Forward(const TensorList &inputs) {
    CheckInputs(type().c_str(), inputs, has_scalar_ ? 1 : 2);
    const Tensor &a = *inputs[0];
    const Device device = a.GetDevice();
    if (!has_scalar_) {
        const Tensor &b = *inputs[1];
        auto output = EmptyOutput(a, b, DataType::kBOOL, type().c_str());
        Dispatch<kernels::Compare>(device, Ref(output), Ref(exchanged_ ? b : a), Ref(exchanged_ ? a : b), op_,
                                   ResultType(a, b));
        return {std::move(output)};
    }
    auto output = Tensor::EmptyLike(a, DataType::kBOOL);
    const DataType common = ResultType(a, other_);
    if (exchanged_) {
        Dispatch<kernels::ScalarCompare>(device, Ref(output), other_, Ref(a), op_, common);
    } else {
        Dispatch<kernels::CompareScalar>(device, Ref(output), Ref(a), other_, op_, common);
    }
    return {std::move(output)};
}

TensorList CompareFunction::Backward(const TensorList & /*grad_outputs*/) {
    return TensorList(has_scalar_ ? 1 : 2);
}

}  // namespace infini_train::autograd
