#include "infini_train/include/autograd/normalization.h"

#include <algorithm>

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/sum_to.h"
#include "infini_train/src/common/format.h"
#include "infini_train/src/kernels/normalization.h"
#include "infini_train/src/tensor/ref.h"
#include "infini_train/src/tensor/shape.h"

namespace infini_train::autograd {
namespace {

TensorRef RefOrNull(const TensorPtr &tensor) {
    return tensor == nullptr ? TensorRef{} : Ref(tensor);
}

TensorPtr InputOrNull(const TensorList &inputs, size_t i) {
    return i < inputs.size() ? inputs[i] : nullptr;
}

TensorPtr ContiguousOrNull(const TensorPtr &tensor) {
    return tensor == nullptr ? nullptr : ContiguousCopy(tensor);
}

// The gradient of a weight or bias; rows that aren't there add nothing.
TensorPtr NewGrad(const std::vector<int64_t> &dims, const Tensor &x) {
    return x.NumElements() > 0 ? Tensor::Empty(dims, x.Dtype(), x.GetDevice())
                               : Tensor::Zeros(dims, x.Dtype(), x.GetDevice());
}

DataType StatisticsType(DataType dtype) {
    return dtype == DataType::kFLOAT64 ? DataType::kFLOAT64 : DataType::kFLOAT32;
}

}  // namespace

void LayerNorm::CheckShapes(const TensorList &inputs) {
    static constexpr const char *kNames[] = {"x", "weight", "bias"};
    const Tensor &x = *inputs[0];
    if (!IsFloatingPoint(x.Dtype())) {
        Throw<DtypeError>("LayerNorm: expected a floating-point tensor, got {}", ToString(x.Dtype()));
    }
    const TensorPtr weight = InputOrNull(inputs, 1);
    const TensorPtr bias = InputOrNull(inputs, 2);
    shape_ = given_shape_;
    if (shape_.empty()) {
        const TensorPtr &like = weight != nullptr ? weight : bias;
        shape_ =
            like != nullptr ? like->Dims() : std::vector<int64_t>(x.Dims().end() - (x.NumDims() > 0), x.Dims().end());
    }
    const auto &dims = x.Dims();
    if (shape_.empty() || shape_.size() > dims.size() || !std::equal(shape_.rbegin(), shape_.rend(), dims.rbegin())) {
        Throw<ShapeError>("LayerNorm: expected x to end in {}, got {}", FormatDims(shape_), FormatDims(dims));
    }
    for (size_t i = 1; i < inputs.size(); ++i) {
        if (inputs[i] == nullptr) {
            continue;
        }
        if (inputs[i]->Dims() != shape_) {
            Throw<ShapeError>("LayerNorm: expected a {} {}, got {}", kNames[i], FormatDims(shape_),
                              FormatDims(inputs[i]->Dims()));
        }
        if (inputs[i]->Dtype() != x.Dtype()) {
            Throw<DtypeError>("LayerNorm: expected a {} of {}, got {}", kNames[i], ToString(x.Dtype()),
                              ToString(inputs[i]->Dtype()));
        }
    }
}

TensorList LayerNorm::Forward(const TensorList &inputs) {
    if (inputs.empty() || inputs.size() > 3) {
        Throw<ValueError>("LayerNorm: expected 1 to 3 inputs, got {}", inputs.size());
    }
    TensorList given = inputs;
    given.erase(std::remove(given.begin() + 1, given.end(), nullptr), given.end());
    CheckOperands(kType, given);
    CheckShapes(inputs);
    num_inputs_ = inputs.size();
    for (size_t i = 0; i < 3; ++i) {
        present_[i] = InputOrNull(inputs, i) != nullptr;
    }
    const auto &dims = inputs[0]->Dims();
    n_ = 1;
    rows_ = 1;
    for (size_t i = 0; i < dims.size(); ++i) {
        (i < dims.size() - shape_.size() ? rows_ : n_) *= dims[i];
    }
    const auto x = ContiguousCopy(inputs[0]);
    const auto weight = ContiguousOrNull(InputOrNull(inputs, 1));
    const auto bias = ContiguousOrNull(InputOrNull(inputs, 2));
    const Device device = x->GetDevice();
    auto y = Tensor::Empty(dims, x->Dtype(), device);
    mean_ = Tensor::Empty({rows_}, StatisticsType(x->Dtype()), device);
    rstd_ = Tensor::Empty({rows_}, StatisticsType(x->Dtype()), device);
    Dispatch<kernels::LayerNormForward>(device, Ref(y), Ref(mean_), Ref(rstd_), Ref(x), RefOrNull(weight),
                                        RefOrNull(bias), eps_);
    return {y};
}

void LayerNorm::SetupContext(const TensorList &inputs, const TensorList & /*outputs*/) {
    ctx_.SaveForBackward({inputs[0], InputOrNull(inputs, 1), std::move(mean_), std::move(rstd_)});
}

TensorList LayerNorm::Backward(const TensorList &grad_outputs) {
    const TensorList saved = ctx_.GetSavedTensors();
    if (GradMode::IsEnabled()) {
        return ComposedBackward(grad_outputs[0], saved[0], saved[1]);
    }
    const auto grad = ContiguousCopy(grad_outputs[0]);
    const auto x = ContiguousCopy(saved[0]);
    const auto weight = ContiguousOrNull(saved[1]);
    TensorList grads(3);
    grads[0] = NeedsGrad(0) ? Tensor::EmptyLike(x) : nullptr;
    grads[1] = NeedsGrad(1) ? NewGrad(shape_, *x) : nullptr;
    grads[2] = NeedsGrad(2) ? NewGrad(shape_, *x) : nullptr;
    Dispatch<kernels::LayerNormBackward>(x->GetDevice(), RefOrNull(grads[0]), RefOrNull(grads[1]), RefOrNull(grads[2]),
                                         Ref(grad), Ref(x), RefOrNull(weight), Ref(saved[2]), Ref(saved[3]));
    grads.resize(num_inputs_);
    return grads;
}

// The same of operators that can be differentiated again.
TensorList LayerNorm::ComposedBackward(const TensorPtr &grad, const TensorPtr &x, const TensorPtr &weight) const {
    const DataType dtype = x->Dtype();
    const DataType wide = StatisticsType(dtype);
    const auto rows = x->Reshape({rows_, n_})->To(wide);
    const auto g = grad->Reshape({rows_, n_})->To(wide);
    const auto centered = rows->Sub(rows->Mean(1, true));
    const auto rstd = centered->Square()->Mean(1, true)->Add(eps_)->Rsqrt();
    const auto xhat = centered->Mul(rstd);
    TensorList grads(3);
    if (NeedsGrad(0)) {
        const auto scaled = weight == nullptr ? g : g->Mul(weight->Reshape({n_})->To(wide));
        const auto along = xhat->Mul(scaled->Mul(xhat)->Mean(1, true));
        grads[0] = scaled->Sub(scaled->Mean(1, true))->Sub(along)->Mul(rstd)->Reshape(x->Dims())->To(dtype);
    }
    if (NeedsGrad(1)) {
        grads[1] = g->Mul(xhat)->Sum(0)->Reshape(shape_)->To(dtype);
    }
    if (NeedsGrad(2)) {
        grads[2] = g->Sum(0)->Reshape(shape_)->To(dtype);
    }
    grads.resize(num_inputs_);
    return grads;
}

TensorList RMSNorm::Forward(const TensorList &inputs) {
    if (inputs.empty() || inputs.size() > 2) {
        Throw<ValueError>("{}: expected x and maybe a weight, got {} inputs", kType, inputs.size());
    }
    num_inputs_ = inputs.size();
    const auto &x = inputs[0];
    const TensorPtr weight = InputOrNull(inputs, 1);
    CheckOperands(kType, weight == nullptr ? TensorList{x} : inputs);
    if (!IsFloatingPoint(x->Dtype())) {
        Throw<DtypeError>("{}: expected a floating-point tensor, got {}", kType, ToString(x->Dtype()));
    }
    if (x->NumDims() == 0) {
        Throw<ShapeError>("{}: expected at least one dimension, got ()", kType);
    }
    if (weight != nullptr && weight->Dims() != std::vector<int64_t>{x->Dim(-1)}) {
        Throw<ShapeError>("{}: expected a weight ({},), got {}", kType, x->Dim(-1), FormatDims(weight->Dims()));
    }
    if (weight != nullptr && weight->Dtype() != x->Dtype()) {
        Throw<DtypeError>("{}: expected a weight of {}, got {}", kType, ToString(x->Dtype()),
                          ToString(weight->Dtype()));
    }
    const auto values = ContiguousCopy(x);
    auto y = Tensor::Empty(x->Dims(), x->Dtype(), x->GetDevice());
    const int64_t n = x->Dim(-1);
    rstd_ = Tensor::Empty({n != 0 ? x->NumElements() / n : 0}, StatisticsType(x->Dtype()), x->GetDevice());
    Dispatch<kernels::LayerNormForward>(x->GetDevice(), Ref(y), TensorRef(), Ref(rstd_), Ref(values),
                                        RefOrNull(ContiguousOrNull(weight)), TensorRef(), eps_);
    return {y};
}

void RMSNorm::SetupContext(const TensorList &inputs, const TensorList & /*outputs*/) {
    ctx_.SaveForBackward({inputs[0], InputOrNull(inputs, 1), std::move(rstd_)});
}

TensorList RMSNorm::Backward(const TensorList &grad_outputs) {
    const TensorList saved = ctx_.GetSavedTensors();
    if (GradMode::IsEnabled()) {
        return ComposedBackward(grad_outputs[0], saved[0], saved[1]);
    }
    const auto grad = ContiguousCopy(grad_outputs[0]);
    const auto x = ContiguousCopy(saved[0]);
    const auto weight = ContiguousOrNull(saved[1]);
    TensorList grads(num_inputs_);
    grads[0] = ctx_.needs_input_grad(0) ? Tensor::EmptyLike(x) : nullptr;
    TensorPtr grad_weight;
    if (weight != nullptr && ctx_.needs_input_grad(1)) {
        grad_weight = grads[1] = NewGrad(weight->Dims(), *x);
    }
    Dispatch<kernels::LayerNormBackward>(x->GetDevice(), RefOrNull(grads[0]), RefOrNull(grad_weight), TensorRef(),
                                         Ref(grad), Ref(x), RefOrNull(weight), TensorRef(), Ref(saved[2]));
    return grads;
}

// The same of operators that can be differentiated again.
TensorList RMSNorm::ComposedBackward(const TensorPtr &grad, const TensorPtr &x, const TensorPtr &weight) const {
    const DataType dtype = x->Dtype();
    const DataType wide = StatisticsType(dtype);
    const auto g = grad->To(wide);
    const auto values = x->To(wide);
    const auto rstd = values->Square()->Mean(-1, true)->Add(eps_)->Rsqrt();
    const auto xhat = values->Mul(rstd);
    TensorList grads(num_inputs_);
    if (ctx_.needs_input_grad(0)) {
        const auto scaled = weight == nullptr ? g : g->Mul(weight->To(wide));
        grads[0] = scaled->Sub(xhat->Mul(scaled->Mul(xhat)->Mean(-1, true)))->Mul(rstd)->To(dtype);
    }
    if (weight != nullptr && ctx_.needs_input_grad(1)) {
        grads[1] = SumTo(g->Mul(xhat), weight->Dims())->To(dtype);
    }
    return grads;
}

}  // namespace infini_train::autograd
