#include "infini_train/include/autograd/reduction.h"

#include <algorithm>
#include <memory>

#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/operands.h"
#include "infini_train/src/common/format.h"
#include "infini_train/src/kernels/reduction.h"
#include "infini_train/src/tensor/ref.h"
#include "infini_train/src/tensor/shape.h"

namespace infini_train::autograd {
namespace {

// A kernel's view of a contiguous output that keeps the reduced dimensions.
class KeptRef {
public:
    KeptRef(const TensorPtr &output, const std::vector<int64_t> &kept_dims)
        : dims_(kept_dims), strides_(ContiguousStrides(kept_dims)) {
        ref_ = {output->DataPtr(),     dims_.data(), strides_.data(), static_cast<int>(dims_.size()), output->Dtype(),
                output->NumElements(), true};
    }
    KeptRef(const KeptRef &) = delete;
    KeptRef &operator=(const KeptRef &) = delete;

    const TensorRef &ref() const { return ref_; }

private:
    const std::vector<int64_t> dims_;
    const std::vector<int64_t> strides_;
    TensorRef ref_;
};

void CheckNotEmpty(const char *name, const std::vector<int64_t> &dims, const std::vector<int64_t> &reduced) {
    for (const int64_t dim : reduced) {
        if (dims[static_cast<size_t>(dim)] == 0) {
            Throw<ShapeError>("{}: expected at least one element, got dim {} of {}", name, dim, FormatDims(dims));
        }
    }
}

// Zero but where an element is the extreme one, there one over the number of those.
TensorPtr ShareAmongTies(const TensorPtr &grad, const TensorPtr &input, const TensorPtr &extreme,
                         const std::vector<int64_t> &reduced) {
    const auto chosen = input->Equals(extreme)->To(input->Dtype());
    const auto count = reduced.empty() ? chosen : chosen->Sum(reduced, /*keep_dim=*/true);
    return chosen->Mul(grad->Div(count));
}

template <class Kernel>
TensorPtr FindPosition(const char *name, const TensorList &inputs, std::optional<int64_t> dim, bool keep_dim) {
    CheckInputs(name, inputs, 1);
    // Without a dimension the search runs over the elements in order.
    const TensorPtr input = dim ? inputs[0] : ContiguousCopy(inputs[0]);
    const auto &dims = input->Dims();
    const std::vector<int64_t> given = dim ? std::vector{*dim} : std::vector<int64_t>{};
    const std::vector<int64_t> reduced = NormalizeDims(given, input->NumDims(), name);
    CheckNotEmpty(name, dims, reduced);
    std::vector<int64_t> kept_dims = dims;
    std::vector<int64_t> output_dims;
    for (size_t i = 0; i < dims.size(); ++i) {
        const bool gone = std::binary_search(reduced.begin(), reduced.end(), static_cast<int64_t>(i));
        kept_dims[i] = gone ? 1 : dims[i];
        if (!gone || keep_dim) {
            output_dims.push_back(kept_dims[i]);
        }
    }
    const auto output = Tensor::Empty(output_dims, DataType::kINT64, input->GetDevice());
    if (dim) {
        const KeptRef kept(output, kept_dims);
        Dispatch<Kernel>(input->GetDevice(), kept.ref(), Ref(*std::as_const(input)),
                         static_cast<int>(reduced.empty() ? 0 : reduced[0]));
        return output;
    }
    const int64_t flat_dim = input->NumElements(), one = 1;
    const KeptRef kept(output, {1});
    ConstTensorRef flat = Ref(*std::as_const(input));
    flat.dims = &flat_dim;
    flat.strides = &one;
    flat.ndim = 1;
    Dispatch<Kernel>(input->GetDevice(), kept.ref(), flat, 0);
    return output;
}

}  // namespace

TensorPtr ReduceFunction::Prepare(const TensorList &inputs, DataType output_dtype) {
    const Tensor &input = *inputs[0];
    input_dims_ = input.Dims();
    reduced_ = NormalizeDims(dims_, input.NumDims(), type().c_str());
    kept_dims_ = input_dims_;
    for (const int64_t dim : reduced_) {
        kept_dims_[static_cast<size_t>(dim)] = 1;
    }
    std::vector<int64_t> output_dims = kept_dims_;
    if (!keep_dim_) {
        for (auto dim = reduced_.rbegin(); dim != reduced_.rend(); ++dim) {
            output_dims.erase(output_dims.begin() + *dim);
        }
    }
    return Tensor::Empty(output_dims, output_dtype, input.GetDevice());
}

TensorPtr ReduceFunction::Kept(const TensorPtr &grad) const {
    return grad->Dims() == kept_dims_ ? grad : grad->Reshape(kept_dims_);
}

int64_t ReduceFunction::Count() const {
    int64_t count = 1;
    for (const int64_t dim : reduced_) {
        count *= input_dims_[static_cast<size_t>(dim)];
    }
    return count;
}

void ReduceFunction::SetupContext(const TensorList & /*inputs*/, const TensorList & /*outputs*/) {}

TensorList Sum::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 1);
    const auto &input = inputs[0];
    const auto output = Prepare(inputs, IsFloatingPoint(input->Dtype()) ? input->Dtype() : DataType::kINT64);
    const KeptRef kept(output, kept_dims_);
    Dispatch<kernels::ReduceSum>(input->GetDevice(), kept.ref(), Ref(*std::as_const(input)), 1.0);
    return {output};
}

TensorList Sum::Backward(const TensorList &grad_outputs) {
    return {Kept(grad_outputs[0])->Expand(input_dims_)};
}

TensorList Mean::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 1);
    const auto &input = inputs[0];
    if (!IsFloatingPoint(input->Dtype())) {
        Throw<DtypeError>("Mean: expected a floating-point tensor, got {}", ToString(input->Dtype()));
    }
    const auto output = Prepare(inputs, input->Dtype());
    const KeptRef kept(output, kept_dims_);
    Dispatch<kernels::ReduceSum>(input->GetDevice(), kept.ref(), Ref(*std::as_const(input)),
                                 static_cast<double>(Count()));
    return {output};
}

TensorList Mean::Backward(const TensorList &grad_outputs) {
    return {Kept(grad_outputs[0])->Div(static_cast<double>(Count()))->Expand(input_dims_)};
}

TensorList Max::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 1);
    const auto &input = inputs[0];
    const auto output = Prepare(inputs, input->Dtype());
    CheckNotEmpty(kType, input_dims_, reduced_);
    const KeptRef kept(output, kept_dims_);
    Dispatch<kernels::ReduceMax>(input->GetDevice(), kept.ref(), Ref(*std::as_const(input)));
    return {output};
}

void Max::SetupContext(const TensorList &inputs, const TensorList &outputs) {
    ctx_.SaveForBackward({inputs[0], outputs[0]});
}

TensorList Max::Backward(const TensorList &grad_outputs) {
    const TensorList saved = ctx_.GetSavedTensors();
    return {ShareAmongTies(Kept(grad_outputs[0]), saved[0], Kept(saved[1]), reduced_)};
}

TensorList Min::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 1);
    const auto &input = inputs[0];
    const auto output = Prepare(inputs, input->Dtype());
    CheckNotEmpty(kType, input_dims_, reduced_);
    const KeptRef kept(output, kept_dims_);
    Dispatch<kernels::ReduceMin>(input->GetDevice(), kept.ref(), Ref(*std::as_const(input)));
    return {output};
}

void Min::SetupContext(const TensorList &inputs, const TensorList &outputs) {
    ctx_.SaveForBackward({inputs[0], outputs[0]});
}

TensorList Min::Backward(const TensorList &grad_outputs) {
    const TensorList saved = ctx_.GetSavedTensors();
    return {ShareAmongTies(Kept(grad_outputs[0]), saved[0], Kept(saved[1]), reduced_)};
}

TensorList Argmax::Forward(const TensorList &inputs) {
    return {FindPosition<kernels::ReduceArgmax>(kType, inputs, dim_, keep_dim_)};
}

void Argmax::SetupContext(const TensorList & /*inputs*/, const TensorList &outputs) {
    ctx_.MarkNonDifferentiable(outputs);
}

TensorList Argmax::Backward(const TensorList & /*grad_outputs*/) {
    return {nullptr};
}

TensorList Argmin::Forward(const TensorList &inputs) {
    return {FindPosition<kernels::ReduceArgmin>(kType, inputs, dim_, keep_dim_)};
}

void Argmin::SetupContext(const TensorList & /*inputs*/, const TensorList &outputs) {
    ctx_.MarkNonDifferentiable(outputs);
}

TensorList Argmin::Backward(const TensorList & /*grad_outputs*/) {
    return {nullptr};
}

}  // namespace infini_train::autograd

namespace infini_train {

#define INFINI_TRAIN_REDUCE_METHODS(Name)                                            \
    TensorPtr Tensor::Name() {                                                       \
        return std::make_shared<autograd::Name>()->Apply({Self()})[0];               \
    }                                                                                \
    TensorPtr Tensor::Name(int64_t dim, bool keep_dim) {                             \
        return std::make_shared<autograd::Name>(dim, keep_dim)->Apply({Self()})[0];  \
    }                                                                                \
    TensorPtr Tensor::Name(const std::vector<int64_t> &dims, bool keep_dim) {        \
        return std::make_shared<autograd::Name>(dims, keep_dim)->Apply({Self()})[0]; \
    }
INFINI_TRAIN_REDUCE_METHODS(Sum)
INFINI_TRAIN_REDUCE_METHODS(Mean)
INFINI_TRAIN_REDUCE_METHODS(Max)
INFINI_TRAIN_REDUCE_METHODS(Min)
#undef INFINI_TRAIN_REDUCE_METHODS

TensorPtr Tensor::Argmax(std::optional<int64_t> dim, bool keep_dim) {
    return std::make_shared<autograd::Argmax>(dim, keep_dim)->Apply({Self()})[0];
}

TensorPtr Tensor::Argmin(std::optional<int64_t> dim, bool keep_dim) {
    return std::make_shared<autograd::Argmin>(dim, keep_dim)->Apply({Self()})[0];
}

}  // namespace infini_train
