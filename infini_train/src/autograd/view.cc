#include "infini_train/include/autograd/view.h"

#include <algorithm>

#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/operands.h"
#include "infini_train/src/autograd/pieces.h"
#include "infini_train/src/autograd/sum_to.h"
#include "infini_train/src/common/format.h"
#include "infini_train/src/core/size.h"
#include "infini_train/src/tensor/shape.h"

namespace infini_train {
namespace autograd {

int64_t RealDim(int64_t dim, const Tensor &tensor, const char *name) {
    if (tensor.NumDims() == 0) {
        Throw<ShapeError>("{}: expected at least one dimension, got ()", name);
    }
    return NormalizeDim(dim, tensor.NumDims(), name);
}

TensorList View::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 1);
    const Tensor &input = *inputs[0];
    auto view = TryView(input, InferDims(dims_, input.NumElements(), kType));
    if (view == nullptr) {
        Throw<ShapeError>("View: {} with strides {} can't be seen as {} without a copy; use Reshape",
                          FormatDims(input.Dims()), FormatDims(input.Strides()), FormatDims(dims_));
    }
    return {view};
}

void View::SetupContext(const TensorList &inputs, const TensorList &) {
    input_dims_ = inputs[0]->Dims();
}

TensorList View::Backward(const TensorList &grad_outputs) {
    return {grad_outputs[0]->Reshape(input_dims_)};
}

TensorList Reshape::Forward(const TensorList &inputs) {
    CheckInputs(type().c_str(), inputs, 1);
    const auto dims = InferDims(dims_, inputs[0]->NumElements(), type().c_str());
    auto view = TryView(*inputs[0], dims);
    return {view != nullptr ? view : TryView(*ContiguousCopy(inputs[0]), dims)};
}

void Reshape::SetupContext(const TensorList &inputs, const TensorList &) {
    input_dims_ = inputs[0]->Dims();
}

TensorList Reshape::Backward(const TensorList &grad_outputs) {
    return {grad_outputs[0]->Reshape(input_dims_)};
}

TensorList Permute::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 1);
    const Tensor &input = *inputs[0];
    const size_t ndim = input.Dims().size();
    if (order_.size() != ndim) {
        Throw<ShapeError>("Permute: expected an order of {} dimensions for {}, got {}", ndim, FormatDims(input.Dims()),
                          FormatDims(order_));
    }
    std::vector<int64_t> dims(ndim), strides(ndim);
    std::vector<bool> taken(ndim);
    for (size_t i = 0; i < ndim; ++i) {
        order_[i] = NormalizeDim(order_[i], input.NumDims(), kType);
        const auto from = static_cast<size_t>(order_[i]);
        if (taken[from]) {
            Throw<ValueError>("Permute: dim {} is given twice", order_[i]);
        }
        taken[from] = true;
        dims[i] = input.Dims()[from];
        strides[i] = input.Strides()[from];
    }
    return {std::make_shared<Tensor>(input.storage(), std::move(dims), std::move(strides), input.StorageOffset(),
                                     input.Dtype())};
}

TensorList Permute::Backward(const TensorList &grad_outputs) {
    std::vector<int64_t> inverse(order_.size());
    for (size_t i = 0; i < order_.size(); ++i) {
        inverse[static_cast<size_t>(order_[i])] = static_cast<int64_t>(i);
    }
    return {grad_outputs[0]->Permute(inverse)};
}

TensorList Select::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 1);
    const Tensor &input = *inputs[0];
    dim_ = RealDim(dim_, input, kType);
    const int64_t size = input.Dims()[static_cast<size_t>(dim_)];
    if (index_ < -size || index_ >= size) {
        Throw<IndexError>("Select: index {} is out of range for dimension {} of size {}", index_, dim_, size);
    }
    index_ += index_ < 0 ? size : 0;
    return {SelectView(input, dim_, index_)};
}

void Select::SetupContext(const TensorList &inputs, const TensorList &) {
    input_dims_ = inputs[0]->Dims();
}

TensorList Select::Backward(const TensorList &grad_outputs) {
    const auto grad = grad_outputs[0]->Unsqueeze(dim_);
    return {input_dims_[static_cast<size_t>(dim_)] == 1 ? grad : SliceGrad(grad, input_dims_, {{dim_, index_, 1, 1}})};
}

TensorList Expand::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 1);
    const Tensor &input = *inputs[0];
    const auto &from = input.Dims();
    if (dims_.size() < from.size()) {
        Throw<ShapeError>("Expand: {} doesn't expand to {}: it has more dimensions", FormatDims(from),
                          FormatDims(dims_));
    }
    const size_t lead = dims_.size() - from.size();
    auto dims = dims_;
    std::vector<int64_t> strides(dims.size(), 0);
    for (size_t i = 0; i < dims.size(); ++i) {
        if (i < lead) {
            if (dims[i] < 0) {
                Throw<ShapeError>("Expand: expected a size for the new dimension {} of {}, got {}", i,
                                  FormatDims(dims_), dims[i]);
            }
            continue;
        }
        const int64_t size = from[i - lead];
        dims[i] = dims[i] == -1 ? size : dims[i];
        if (dims[i] != size && (size != 1 || dims[i] < 0)) {
            Throw<ShapeError>("Expand: {} doesn't expand to {}: {} against {}", FormatDims(from), FormatDims(dims_),
                              size, dims[i]);
        }
        strides[i] = dims[i] == size ? input.Strides()[i - lead] : 0;
    }
    return {std::make_shared<Tensor>(input.storage(), std::move(dims), std::move(strides), input.StorageOffset(),
                                     input.Dtype())};
}

void Expand::SetupContext(const TensorList &inputs, const TensorList &) {
    input_dims_ = inputs[0]->Dims();
}

TensorList Expand::Backward(const TensorList &grad_outputs) {
    return {SumTo(grad_outputs[0], input_dims_)};
}

TensorList Squeeze::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 1);
    const Tensor &input = *inputs[0];
    const int64_t only = dim_ ? NormalizeDim(*dim_, input.NumDims(), kType) : -1;
    std::vector<int64_t> dims, strides;
    for (int64_t d = 0; d < input.NumDims(); ++d) {
        if (input.Dims()[static_cast<size_t>(d)] != 1 || (dim_ && d != only)) {
            dims.push_back(input.Dims()[static_cast<size_t>(d)]);
            strides.push_back(input.Strides()[static_cast<size_t>(d)]);
        }
    }
    return {std::make_shared<Tensor>(input.storage(), std::move(dims), std::move(strides), input.StorageOffset(),
                                     input.Dtype())};
}

void Squeeze::SetupContext(const TensorList &inputs, const TensorList &) {
    input_dims_ = inputs[0]->Dims();
}

TensorList Squeeze::Backward(const TensorList &grad_outputs) {
    return {grad_outputs[0]->Reshape(input_dims_)};
}

TensorList Unsqueeze::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 1);
    const int64_t places = inputs[0]->NumDims() + 1;
    if (dim_ < -places || dim_ >= places) {
        Throw<IndexError>("Unsqueeze: dim {} is out of range for {} places", dim_, places);
    }
    dim_ += dim_ < 0 ? places : 0;
    return {UnsqueezeView(*inputs[0], dim_)};
}

TensorList Unsqueeze::Backward(const TensorList &grad_outputs) {
    return {grad_outputs[0]->Squeeze(dim_)};
}

TensorList Unbind::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 1);
    const Tensor &input = *inputs[0];
    dim_ = RealDim(dim_, input, kType);
    TensorList outputs;
    for (int64_t i = 0; i < input.Dims()[static_cast<size_t>(dim_)]; ++i) {
        outputs.push_back(SelectView(input, dim_, i));
    }
    return outputs;
}

void Unbind::SetupContext(const TensorList &inputs, const TensorList &) {
    input_dims_ = inputs[0]->Dims();
    ctx_.set_materialize_grads(false);
}

TensorList Unbind::Backward(const TensorList &grad_outputs) {
    return {JoinGrads(grad_outputs, input_dims_, dim_, std::vector<int64_t>(grad_outputs.size(), 1), true)};
}

TensorList Contiguous::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 1);
    return {CastCopy(*inputs[0], inputs[0]->Dtype())};
}

TensorList Contiguous::Backward(const TensorList &grad_outputs) {
    return {grad_outputs[0]};
}

}  // namespace autograd

TensorPtr Tensor::View(const std::vector<int64_t> &dims) {
    return std::make_shared<autograd::View>(dims)->Apply({Self()})[0];
}
TensorPtr Tensor::Reshape(const std::vector<int64_t> &dims) {
    return std::make_shared<autograd::Reshape>(dims)->Apply({Self()})[0];
}
TensorPtr Tensor::Permute(const std::vector<int64_t> &order) {
    return std::make_shared<autograd::Permute>(order)->Apply({Self()})[0];
}
TensorPtr Tensor::Select(int64_t dim, int64_t index) {
    return std::make_shared<autograd::Select>(dim, index)->Apply({Self()})[0];
}
TensorPtr Tensor::Expand(const std::vector<int64_t> &dims) {
    return std::make_shared<autograd::Expand>(dims)->Apply({Self()})[0];
}
TensorPtr Tensor::Squeeze(int64_t dim) {
    return std::make_shared<autograd::Squeeze>(dim)->Apply({Self()})[0];
}
TensorPtr Tensor::Squeeze() {
    return std::make_shared<autograd::Squeeze>()->Apply({Self()})[0];
}
TensorPtr Tensor::Unsqueeze(int64_t dim) {
    return std::make_shared<autograd::Unsqueeze>(dim)->Apply({Self()})[0];
}
TensorList Tensor::Unbind(int64_t dim) {
    return std::make_shared<autograd::Unbind>(dim)->Apply({Self()});
}
TensorPtr Tensor::Contiguous() {
    return IsContiguous() ? Self() : std::make_shared<autograd::Contiguous>()->Apply({Self()})[0];
}

TensorPtr Tensor::Flatten(int64_t start, int64_t end) {
    start = NormalizeDim(start, NumDims(), "Flatten");
    end = NormalizeDim(end, NumDims(), "Flatten");
    if (start > end) {
        Throw<ValueError>("Flatten: expected start <= end, got dimensions {} and {}", start, end);
    }
    if (NumDims() == 0) {
        return Reshape({1});
    }
    std::vector<int64_t> dims(dims_.begin(), dims_.begin() + start);
    dims.push_back(CheckedNumElements({dims_.begin() + start, dims_.begin() + end + 1}, "Flatten"));
    dims.insert(dims.end(), dims_.begin() + end + 1, dims_.end());
    return Reshape(dims);
}

}  // namespace infini_train
