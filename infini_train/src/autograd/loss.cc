#include "infini_train/include/autograd/loss.h"

#include <utility>

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/autocast.h"
#include "infini_train/src/autograd/graph_task.h"
#include "infini_train/src/autograd/meta.h"
#include "infini_train/src/autograd/operands.h"
#include "infini_train/src/common/format.h"
#include "infini_train/src/kernels/loss.h"
#include "infini_train/src/tensor/ref.h"
#include "infini_train/src/tensor/shape.h"

namespace infini_train::autograd {
namespace {

int64_t NumClasses(const Tensor &logits) {
    return logits.Dims()[logits.NumDims() == 1 ? 0 : 1];
}

// Classes last, everything else a row: (rows, C).
TensorPtr ToRows(const TensorPtr &logits) {
    const int64_t ndim = logits->NumDims();
    if (ndim == 2) {
        return logits;
    }
    const int64_t classes = NumClasses(*logits);
    if (ndim == 1) {
        return logits->Reshape({1, classes});
    }
    std::vector<int64_t> order{0};
    int64_t rows = logits->Dims()[0];
    for (int64_t i = 2; i < ndim; ++i) {
        order.push_back(i);
        rows *= logits->Dims()[static_cast<size_t>(i)];
    }
    order.push_back(1);
    return logits->Permute(order)->Reshape({rows, classes});
}

// The inverse, for logits of `dims`.
TensorPtr FromRows(const TensorPtr &rows, const std::vector<int64_t> &dims) {
    if (dims.size() <= 2) {
        return rows->Dims() == dims ? rows : rows->Reshape(dims);
    }
    std::vector<int64_t> permuted{dims[0]};
    std::vector<int64_t> order{0, static_cast<int64_t>(dims.size()) - 1};
    for (size_t i = 2; i < dims.size(); ++i) {
        permuted.push_back(dims[i]);
        order.push_back(static_cast<int64_t>(i) - 1);
    }
    permuted.push_back(dims[1]);
    return rows->Reshape(permuted)->Permute(order);
}

std::vector<int64_t> LabelDims(const Tensor &logits) {
    std::vector<int64_t> dims = logits.Dims();
    dims.erase(dims.begin() + (dims.size() == 1 ? 0 : 1));
    return dims;
}

void CheckShapes(const Tensor &logits, const Tensor &labels) {
    if (!IsFloatingPoint(logits.Dtype()) || !IsIntegral(labels.Dtype())) {
        Throw<DtypeError>("CrossEntropy: expected floating-point logits and integer labels, got {} and {}",
                          ToString(logits.Dtype()), ToString(labels.Dtype()));
    }
    if (logits.NumDims() == 0) {
        Throw<ShapeError>("CrossEntropy: expected logits (C), (N, C) or (N, C, d1, ...), got ()");
    }
    const auto expected = LabelDims(logits);
    if (labels.Dims() != expected) {
        Throw<ShapeError>("CrossEntropy: {} and {} don't match: expected labels {}", FormatDims(logits.Dims()),
                          FormatDims(labels.Dims()), FormatDims(expected));
    }
}

}  // namespace

CrossEntropy::CrossEntropy(int64_t ignore_index, double label_smoothing, Reduction reduction)
    : Function(kType), ignore_index_(ignore_index), label_smoothing_(label_smoothing), reduction_(reduction) {
    if (!(label_smoothing >= 0 && label_smoothing <= 1)) {
        Throw<ValueError>("CrossEntropy: expected a label_smoothing in [0, 1], got {}", label_smoothing);
    }
}

TensorList CrossEntropy::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 2);
    CheckShapes(*inputs[0], *inputs[1]);
    const Device device = inputs[0]->GetDevice();
    const auto logits = ContiguousCopy(ToRows(inputs[0]));
    const auto labels = ContiguousCopy(inputs[1]);
    const int64_t classes = NumClasses(*inputs[0]);
    const auto summary = Dispatch<kernels::CheckLabels>(device, Ref(labels), classes, ignore_index_);
    if (summary.bad_position >= 0) {
        Throw<IndexError>("CrossEntropy: label {} at position {} is out of range for {} classes", summary.bad_label,
                          summary.bad_position, classes);
    }
    divisor_ = reduction_ == Reduction::kMean ? static_cast<double>(summary.num_counted) : 1.0;
    const bool whole = reduction_ != Reduction::kNone;
    auto loss = Tensor::Empty(whole ? std::vector<int64_t>{} : labels->Dims(), logits->Dtype(), device);
    const bool wide = logits->Dtype() == DataType::kFLOAT64;
    lse_ = Tensor::Empty({labels->NumElements()}, wide ? DataType::kFLOAT64 : DataType::kFLOAT32, device);
    Dispatch<kernels::CrossEntropyForward>(device, Ref(loss), Ref(lse_), Ref(logits), Ref(labels),
                                           kernels::CrossEntropyOptions{ignore_index_, label_smoothing_, divisor_});
    return {loss};
}

void CrossEntropy::SetupContext(const TensorList &inputs, const TensorList & /*outputs*/) {
    ctx_.SaveForBackward({inputs[0], inputs[1], std::move(lse_)});
}

TensorList CrossEntropy::Backward(const TensorList &grad_outputs) {
    const TensorList saved = ctx_.GetSavedTensors();
    if (!ctx_.needs_input_grad(0)) {
        return {nullptr, nullptr};
    }
    if (GradMode::IsEnabled()) {
        return {ComposedBackward(grad_outputs[0], saved[0], saved[1]), nullptr};
    }
    const auto grad = ContiguousCopy(grad_outputs[0]);
    // These are the largest tensors of a language model: one less of them at the peak.
    const bool may_overwrite = GraphTask::MayOverwrite(*this, saved[0]);
    const auto logits = ContiguousCopy(ToRows(saved[0]));
    const auto labels = ContiguousCopy(saved[1]);
    const auto grad_rows = may_overwrite && logits == saved[0] ? Alias(*logits) : Tensor::EmptyLike(logits);
    Dispatch<kernels::CrossEntropyBackward>(logits->GetDevice(), Ref(grad_rows), Ref(grad), Ref(logits), Ref(saved[2]),
                                            Ref(labels),
                                            kernels::CrossEntropyOptions{ignore_index_, label_smoothing_, divisor_});
    return {ContiguousCopy(FromRows(grad_rows, saved[0]->Dims())), nullptr};
}

// (softmax - target) * weight, of operators that can be differentiated again.
TensorPtr CrossEntropy::ComposedBackward(const TensorPtr &grad, const TensorPtr &logits,
                                         const TensorPtr &labels) const {
    const auto rows = ToRows(logits);
    auto targets = Tensor::EmptyLike(rows);
    auto weight = Tensor::Empty({rows->Dims()[0], 1}, rows->Dtype(), rows->GetDevice());
    const auto contiguous_labels = ContiguousCopy(labels);
    Dispatch<kernels::LabelDistributions>(rows->GetDevice(), Ref(targets), Ref(weight), Ref(contiguous_labels),
                                          kernels::CrossEntropyOptions{ignore_index_, label_smoothing_, divisor_});
    const auto scale = weight->Mul(reduction_ == Reduction::kNone ? grad->Reshape(weight->Dims()) : grad);
    return FromRows(rows->Softmax(1)->Sub(targets)->Mul(scale), logits->Dims());
}

TensorPtr MseLoss(const TensorPtr &input, const TensorPtr &target, Reduction reduction) {
    CheckOperands("MseLoss", {input, target});
    if (input->Dims() != target->Dims()) {
        Throw<ShapeError>("MseLoss: {} and {} don't match", FormatDims(input->Dims()), FormatDims(target->Dims()));
    }
    const auto cast = AutocastInputs("MseLoss", {input, target});
    const auto squares = cast ? (*cast)[0]->Sub((*cast)[1])->Square() : input->Sub(target)->Square();
    switch (reduction) {
        case Reduction::kMean:
            return squares->Mean();
        case Reduction::kSum:
            return squares->Sum();
        default:
            return squares;
    }
}

}  // namespace infini_train::autograd
