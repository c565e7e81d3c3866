// The operators that change their tensor. Unrecorded, a kernel writes straight into its memory; recorded, the result is
// computed out of place by the ordinary function and then takes the tensor's place.

#include <algorithm>
#include <cmath>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/core/dispatcher.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/meta.h"
#include "infini_train/src/autograd/operands.h"
#include "infini_train/src/autograd/promotion.h"
#include "infini_train/src/autograd/sum_to.h"
#include "infini_train/src/common/format.h"
#include "infini_train/src/kernels/elementwise.h"
#include "infini_train/src/kernels/fill.h"
#include "infini_train/src/tensor/ref.h"
#include "infini_train/src/tensor/shape.h"

namespace infini_train {
namespace autograd {
namespace {

using kernels::BinaryOp;

void CheckWritable(const Tensor &self, const char *name) {
    CheckInPlaceAllowed(self, name);
    for (size_t i = 0; i < self.Dims().size(); ++i) {
        if (self.Dims()[i] > 1 && self.Strides()[i] == 0 && self.NumElements() > 0) {
            Throw<ShapeError>("{}: a tensor of shape {} that repeats its elements can't be changed in place; use Clone",
                              name, FormatDims(self.Dims()));
        }
    }
}

// Numbers don't go into a narrower kind: a float not into an integer, a number not into bool.
void CheckCast(DataType result, DataType self, const char *name) {
    if ((IsFloatingPoint(result) && !IsFloatingPoint(self)) || (result != DataType::kBOOL && self == DataType::kBOOL)) {
        Throw<DtypeError>("{}: the result is {} and can't go into a tensor of {}", name, ToString(result),
                          ToString(self));
    }
}

void CheckBroadcast(const Tensor &self, const Tensor &other, const char *name) {
    if (self.Dims() != other.Dims() && BroadcastDims(self.Dims(), other.Dims(), name) != self.Dims()) {
        Throw<ShapeError>("{}: {} doesn't broadcast to {}, the shape of the tensor that is changed", name,
                          FormatDims(other.Dims()), FormatDims(self.Dims()));
    }
}

// What a kernel may read while it writes `self`: `other`, or a copy where they overlap.
TensorPtr WithoutOverlap(const Tensor &self, const TensorPtr &other) {
    const bool same = other->DataPtr() == self.DataPtr() && other->Dims() == self.Dims() &&
                      other->Strides() == self.Strides() && other->Dtype() == self.Dtype();
    return other->storage() != self.storage() || same ? other : CastCopy(*other, other->Dtype());
}

bool IsRecorded(const Tensor &self, const TensorPtr &other = nullptr) {
    return GradMode::IsEnabled() && (self.requires_grad() || (other != nullptr && other->requires_grad()));
}

DataType BinaryResult(BinaryOp op, DataType dtype) {
    return op == BinaryOp::kDiv ? FloatType(dtype) : dtype;
}

// A tensor of plain values may join the graph, but then nothing else may show its memory: that would stay outside and
// the gradient of what is read through it would be lost.
void CheckMayJoin(const Tensor &self, const char *name) {
    if (!self.requires_grad() && self.storage().use_count() > 1) {
        Throw<AutogradError>(
            "{}: a tensor of shape {} that shares its memory with another, as a view does, and requires no gradient "
            "can't take values that require one; use Clone first, or build the result with Concat or Stack",
            name, FormatDims(self.Dims()));
    }
}

// What an operator whose derivative by `other` needs self's values may save in its place: the values are about to be
// overwritten, and saving self, whose function it becomes, would be a cycle.
TensorPtr ValuesToSave(const TensorPtr &self, const Tensor &other) {
    return GradMode::IsEnabled() && other.requires_grad() ? self->Clone() : self;
}

// `compute()` gives the result out of place.
template <typename Compute>
TensorPtr Binary(const TensorPtr &self, const TensorPtr &other, BinaryOp op, const char *name, Compute compute) {
    CheckWritable(*self, name);
    CheckOperands(name, {self, other});
    const DataType result = BinaryResult(op, ResultType(*self, *other));
    CheckCast(result, self->Dtype(), name);
    CheckBroadcast(*self, *other, name);
    if (IsRecorded(*self, other)) {
        CheckMayJoin(*self, name);
        RebaseInPlace(self, compute()->To(self->Dtype()));
        return self;
    }
    if (result != self->Dtype() || (op == BinaryOp::kSub && result == DataType::kBOOL)) {
        const NoGradGuard no_grad;
        self->CopyFrom(*compute());
        return self;
    }
    const TensorPtr operand = WithoutOverlap(*self, other);
    Dispatch<kernels::Binary>(self->GetDevice(), Ref(self), Ref(*self), Ref(*operand), op);
    self->storage()->BumpVersion();
    return self;
}

template <typename Compute>
TensorPtr BinaryScalar(const TensorPtr &self, Scalar other, BinaryOp op, const char *name, Compute compute) {
    CheckWritable(*self, name);
    CheckCast(BinaryResult(op, ResultType(*self, other)), self->Dtype(), name);
    if (IsRecorded(*self) || self->Dtype() == DataType::kBOOL) {
        RebaseInPlace(self, compute());
        return self;
    }
    Dispatch<kernels::BinaryScalar>(self->GetDevice(), Ref(self), Ref(*self), other, op);
    self->storage()->BumpVersion();
    return self;
}

// Values that don't depend on the tensor that they replace, whose gradient ends here.
class Overwrite : public Function {
public:
    Overwrite() : Function("Overwrite") {}

    TensorList Forward(const TensorList &inputs) override { return {Tensor::EmptyLike(inputs[0])}; }
    TensorList Backward(const TensorList &grad_outputs) override {
        return {ctx_.needs_input_grad(0) ? Tensor::ZerosLike(grad_outputs[0]) : nullptr};
    }
};

// Inputs (self, source): the values of `source`, broadcast and converted. The gradient goes to the source.
class CopyOver : public Function {
public:
    CopyOver() : Function("Copy_") {}

    TensorList Forward(const TensorList &inputs) override {
        auto output = Tensor::EmptyLike(inputs[0]);
        Dispatch<kernels::Copy>(output->GetDevice(), Ref(output), Ref(*inputs[1]));
        return {std::move(output)};
    }
    void SetupContext(const TensorList &inputs, const TensorList & /*outputs*/) override {
        dims_ = inputs[1]->Dims();
        dtype_ = inputs[1]->Dtype();
    }
    TensorList Backward(const TensorList &grad_outputs) override {
        const TensorPtr &grad = grad_outputs[0];
        return {ctx_.needs_input_grad(0) ? Tensor::ZerosLike(grad) : nullptr,
                ctx_.needs_input_grad(1) ? SumTo(grad, dims_)->To(dtype_) : nullptr};
    }

private:
    std::vector<int64_t> dims_;
    DataType dtype_ = DataType::kFLOAT32;
};

// `write(tensor)` sets all elements of a tensor, whatever they were.
template <typename Write>
TensorPtr OverwriteWith(const TensorPtr &self, const char *name, Write write) {
    CheckWritable(*self, name);
    if (IsRecorded(*self)) {
        const TensorPtr result = std::make_shared<Overwrite>()->Apply({self})[0];
        write(result);
        RebaseInPlace(self, result);
        return self;
    }
    write(self);
    self->storage()->BumpVersion();
    return self;
}

Generator::State Draw(const Tensor &tensor, Generator *generator) {
    // Four 32-bit numbers a block; a float64 takes two of them.
    const int64_t per_block = tensor.Dtype() == DataType::kFLOAT64 ? 2 : 4;
    const int64_t blocks = tensor.NumElements() / per_block + (tensor.NumElements() % per_block != 0 ? 1 : 0);
    return (generator != nullptr ? *generator : DefaultGenerator()).Reserve(static_cast<uint64_t>(blocks));
}

void CheckFloating(const Tensor &tensor, const char *name) {
    if (!IsFloatingPoint(tensor.Dtype())) {
        Throw<DtypeError>("{}: expected a floating-point tensor, got {}", name, ToString(tensor.Dtype()));
    }
}

}  // namespace
}  // namespace autograd

using kernels::BinaryOp;

TensorPtr Tensor::Add_(const TensorPtr &other) {
    return autograd::Binary(Self(), other, BinaryOp::kAdd, "Add_", [&] { return Add(other); });
}
TensorPtr Tensor::Add_(Scalar other) {
    return autograd::BinaryScalar(Self(), other, BinaryOp::kAdd, "Add_", [&] { return Add(other); });
}
TensorPtr Tensor::Sub_(const TensorPtr &other) {
    return autograd::Binary(Self(), other, BinaryOp::kSub, "Sub_", [&] { return Sub(other); });
}
TensorPtr Tensor::Sub_(Scalar other) {
    return autograd::BinaryScalar(Self(), other, BinaryOp::kSub, "Sub_", [&] { return Sub(other); });
}
TensorPtr Tensor::Mul_(const TensorPtr &other) {
    return autograd::Binary(Self(), other, BinaryOp::kMul, "Mul_", [&] {
        const TensorPtr factor = autograd::ValuesToSave(Self(), *other);
        return factor->Mul(other.get() == this ? factor : other);
    });
}
TensorPtr Tensor::Mul_(Scalar other) {
    return autograd::BinaryScalar(Self(), other, BinaryOp::kMul, "Mul_", [&] { return Mul(other); });
}
TensorPtr Tensor::Div_(const TensorPtr &other) {
    return autograd::Binary(Self(), other, BinaryOp::kDiv, "Div_", [&] {
        const TensorPtr numerator = autograd::ValuesToSave(Self(), *other);
        return numerator->Div(other.get() == this ? numerator : other);
    });
}
TensorPtr Tensor::Div_(Scalar other) {
    return autograd::BinaryScalar(Self(), other, BinaryOp::kDiv, "Div_", [&] { return Div(other); });
}

TensorPtr Tensor::Relu_() {
    const TensorPtr self = Self();
    autograd::CheckWritable(*self, "Relu_");
    if (autograd::IsRecorded(*self) || dtype_ == DataType::kBOOL) {
        autograd::RebaseInPlace(self, Relu());
        return self;
    }
    Dispatch<kernels::Unary>(GetDevice(), Ref(self), Ref(*self), kernels::UnaryOp::kRelu);
    storage_->BumpVersion();
    return self;
}

TensorPtr Tensor::Fill_(Scalar value) {
    return autograd::OverwriteWith(Self(), "Fill_", [&](const TensorPtr &tensor) {
        Dispatch<kernels::Fill>(tensor->GetDevice(), Ref(tensor), value);
    });
}

TensorPtr Tensor::Zero_() {
    return Fill_(0);
}

TensorPtr Tensor::Copy_(const TensorPtr &source) {
    const TensorPtr self = Self();
    autograd::CheckWritable(*self, "Copy_");
    if (source == nullptr) {
        Throw<ValueError>("Copy_: the source is null");
    }
    const TensorPtr here = source->To(GetDevice());
    autograd::CheckBroadcast(*self, *here, "Copy_");
    if (autograd::IsRecorded(*self, here)) {
        autograd::CheckMayJoin(*self, "Copy_");
        autograd::RebaseInPlace(self, std::make_shared<autograd::CopyOver>()->Apply({self, here})[0]);
        return self;
    }
    const TensorPtr operand = autograd::WithoutOverlap(*self, here);
    Dispatch<kernels::Copy>(GetDevice(), Ref(self), Ref(*operand));
    storage_->BumpVersion();
    return self;
}

TensorPtr Tensor::Uniform(float from, float to, Generator *generator) {
    autograd::CheckFloating(*this, "Uniform");
    if (!(from <= to) || !std::isfinite(to - from)) {
        Throw<ValueError>("Uniform: expected from <= to, both finite, got {} and {}", from, to);
    }
    return autograd::OverwriteWith(Self(), "Uniform", [&](const TensorPtr &tensor) {
        Dispatch<kernels::UniformFill>(tensor->GetDevice(), Ref(tensor), from, to, autograd::Draw(*tensor, generator));
    });
}

TensorPtr Tensor::Normal(float mean, float std, Generator *generator) {
    autograd::CheckFloating(*this, "Normal");
    if (!(std >= 0.0F)) {
        Throw<ValueError>("Normal: expected a standard deviation >= 0, got {}", std);
    }
    return autograd::OverwriteWith(Self(), "Normal", [&](const TensorPtr &tensor) {
        Dispatch<kernels::NormalFill>(tensor->GetDevice(), Ref(tensor), mean, std, autograd::Draw(*tensor, generator));
    });
}

}  // namespace infini_train
