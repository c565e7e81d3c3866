#include "infini_train/include/autograd/transform.h"

#include <algorithm>

#include "infini_train/include/core/dispatcher.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/operands.h"
#include "infini_train/src/autograd/pieces.h"
#include "infini_train/src/autograd/sum_to.h"
#include "infini_train/src/common/format.h"
#include "infini_train/src/core/size.h"
#include "infini_train/src/kernels/fill.h"
#include "infini_train/src/kernels/transform.h"
#include "infini_train/src/tensor/ref.h"
#include "infini_train/src/tensor/shape.h"

namespace infini_train {
namespace autograd {

TensorList Transpose::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 1);
    const Tensor &input = *inputs[0];
    const int64_t dim0 = NormalizeDim(dim0_, input.NumDims(), kType);
    const int64_t dim1 = NormalizeDim(dim1_, input.NumDims(), kType);
    auto dims = input.Dims();
    auto strides = input.Strides();
    if (dim0 != dim1) {
        std::swap(dims[static_cast<size_t>(dim0)], dims[static_cast<size_t>(dim1)]);
        std::swap(strides[static_cast<size_t>(dim0)], strides[static_cast<size_t>(dim1)]);
    }
    return {std::make_shared<Tensor>(input.storage(), std::move(dims), std::move(strides), input.StorageOffset(),
                                     input.Dtype())};
}

TensorList Transpose::Backward(const TensorList &grad_outputs) {
    return {grad_outputs[0]->Transpose(dim0_, dim1_)};
}

namespace {

// The positions that Python's start:end:step takes from `size`.
DimSlice ResolveSlice(int64_t dim, int64_t size, int64_t start, int64_t end, int64_t step) {
    if (step < 1) {
        Throw<ValueError>("Slice: expected a step of at least 1, got {} for dimension {}", step, dim);
    }
    // A negative position is above -2^63 - 1, so adding a size can't overflow.
    const auto clip = [size](int64_t position) {
        return std::clamp<int64_t>(position < 0 ? position + size : position, 0, size);
    };
    start = clip(start);
    const int64_t span = std::max<int64_t>(clip(end) - start, 0);
    return {dim, start, span / step + (span % step != 0 ? 1 : 0), step};
}

TensorPtr Triangle(const char *name, const TensorList &inputs, int64_t diagonal, bool lower) {
    CheckInputs(name, inputs, 1);
    const TensorPtr &input = inputs[0];
    if (input->NumDims() < 2) {
        Throw<ShapeError>("{}: expected at least two dimensions, got {}", name, FormatDims(input->Dims()));
    }
    const int64_t cut = std::clamp(diagonal, -input->Dim(-2), input->Dim(-1));
    auto output = Tensor::EmptyLike(input);
    Dispatch<kernels::Triangle>(input->GetDevice(), Ref(output), Ref(input), cut, lower);
    return output;
}

}  // namespace

void Slice::Resolve(const std::vector<int64_t> &dims) {
    const auto ndim = static_cast<int64_t>(dims.size());
    slices_.clear();
    const auto add = [&](int64_t dim, size_t i) {
        const int64_t size = dims[static_cast<size_t>(dim)];
        const DimSlice slice = ResolveSlice(dim, size, starts_[i], ends_[i], steps_[i]);
        if (slice.length != size) {
            slices_.push_back(slice);
        }
    };
    if (dim_) {
        if (ndim == 0) {
            Throw<ShapeError>("{}: expected at least one dimension, got ()", type());
        }
        add(NormalizeDim(*dim_, ndim, type().c_str()), 0);
        return;
    }
    if (starts_.size() != dims.size() || ends_.size() != dims.size() || steps_.size() != dims.size()) {
        Throw<ShapeError>("Slice: expected {} starts, ends and steps for {}, got {}, {} and {}", ndim, FormatDims(dims),
                          starts_.size(), ends_.size(), steps_.size());
    }
    for (int64_t d = 0; d < ndim; ++d) {
        add(d, static_cast<size_t>(d));
    }
}

TensorList Slice::Forward(const TensorList &inputs) {
    CheckInputs(type().c_str(), inputs, 1);
    if (!resolved_) {
        Resolve(inputs[0]->Dims());
    }
    return {SliceView(*inputs[0], slices_)};
}

void Slice::SetupContext(const TensorList &inputs, const TensorList &) {
    input_dims_ = inputs[0]->Dims();
}

TensorList Slice::Backward(const TensorList &grad_outputs) {
    return {SliceGrad(grad_outputs[0], input_dims_, slices_)};
}

TensorList Narrow::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 1);
    const int64_t dim = RealDim(dim_, *inputs[0], kType);
    const int64_t size = inputs[0]->Dims()[static_cast<size_t>(dim)];
    const int64_t start = start_ < 0 ? start_ + size : start_;
    if (start < 0 || start > size || length_ < 0 || length_ > size - start) {
        Throw<IndexError>("Narrow: {} positions from {} on reach outside of dimension {} of size {}", length_, start_,
                          dim, size);
    }
    if (length_ == size) {
        set_slices({});
    } else {
        set_slices({{dim, start, length_, 1}});
    }
    return Slice::Forward(inputs);
}

TensorList Split::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 1);
    const Tensor &input = *inputs[0];
    dim_ = RealDim(dim_, input, kType);
    SetSizes(input.Dims()[static_cast<size_t>(dim_)]);
    TensorList outputs;
    int64_t start = 0;
    for (const int64_t size : sizes_) {
        const DimSlice piece{dim_, start, size, 1};
        outputs.push_back(SliceView(input, {&piece, 1}));
        start += size;
    }
    return outputs;
}

void Split::SetSizes(int64_t total) {
    if (!given_) {
        if (split_size_ < 1) {
            Throw<ValueError>("Split: expected pieces of at least one position, got {}", split_size_);
        }
        sizes_.assign(static_cast<size_t>(total / split_size_), split_size_);
        if (total % split_size_ != 0 || total == 0) {
            sizes_.push_back(total % split_size_);
        }
        return;
    }
    int64_t left = total;
    for (const int64_t size : sizes_) {
        if (size < 0) {
            Throw<ValueError>("Split: expected pieces of at least 0 positions, got {}", FormatDims(sizes_));
        }
        left = size <= left ? left - size : -1;
    }
    if (left != 0) {
        Throw<ShapeError>("Split: expected pieces that add up to the {} positions of dimension {}, got {}", total, dim_,
                          FormatDims(sizes_));
    }
}

void Split::SetupContext(const TensorList &inputs, const TensorList &) {
    input_dims_ = inputs[0]->Dims();
    ctx_.set_materialize_grads(false);
}

TensorList Split::Backward(const TensorList &grad_outputs) {
    return {JoinGrads(grad_outputs, input_dims_, dim_, sizes_, false)};
}

TensorList Tril::Forward(const TensorList &inputs) {
    return {Triangle(kType, inputs, diagonal_, true)};
}

TensorList Tril::Backward(const TensorList &grad_outputs) {
    return {grad_outputs[0]->Tril(diagonal_)};
}

TensorList Triu::Forward(const TensorList &inputs) {
    return {Triangle(kType, inputs, diagonal_, false)};
}

TensorList Triu::Backward(const TensorList &grad_outputs) {
    return {grad_outputs[0]->Triu(diagonal_)};
}

TensorList Mask::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 1);
    if (mask_ == nullptr) {
        Throw<ValueError>("Mask: expected a mask, got null");
    }
    const TensorPtr &input = inputs[0];
    CheckOperands(kType, {input, mask_});
    const auto dims = BroadcastDims(input->Dims(), mask_->Dims(), kType);
    if (mask_->Dtype() != DataType::kBOOL) {
        mask_ = CastCopy(*mask_, DataType::kBOOL);
    }
    auto output = Tensor::Empty(dims, input->Dtype(), input->GetDevice());
    const auto wide_input = BroadcastTo(*input, dims, kType);
    const auto wide_mask = BroadcastTo(*mask_, dims, kType);
    Dispatch<kernels::MaskedFill>(input->GetDevice(), Ref(output), Ref(wide_input), Ref(wide_mask), value_);
    return {output};
}

void Mask::SetupContext(const TensorList &inputs, const TensorList &) {
    input_dims_ = inputs[0]->Dims();
    ctx_.SaveForBackward({mask_});
}

TensorList Mask::Backward(const TensorList &grad_outputs) {
    return {SumTo(grad_outputs[0]->MaskedFill(ctx_.GetSavedTensors()[0], 0), input_dims_)};
}

TensorList RepeatInterleave::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 1);
    if (repeat_ < 0) {
        Throw<ValueError>("RepeatInterleave: expected a number of repeats >= 0, got {}", repeat_);
    }
    const Tensor &input = *inputs[0];
    dim_ = RealDim(dim_, input, kType);
    // The input seen with a new dimension of stride 0 is the output with its dimension cut in two.
    auto dims = input.Dims();
    auto strides = input.Strides();
    dims.insert(dims.begin() + dim_ + 1, repeat_);
    strides.insert(strides.begin() + dim_ + 1, 0);
    CheckedNumElements(dims, kType);
    auto output_dims = input.Dims();
    output_dims[static_cast<size_t>(dim_)] *= repeat_;
    const Tensor repeated(input.storage(), dims, strides, input.StorageOffset(), input.Dtype());
    auto output = Tensor::Empty(output_dims, input.Dtype(), input.GetDevice());
    Dispatch<kernels::Copy>(input.GetDevice(), Ref(TryView(*output, dims)), Ref(repeated));
    return {output};
}

void RepeatInterleave::SetupContext(const TensorList &inputs, const TensorList &) {
    input_dims_ = inputs[0]->Dims();
}

TensorList RepeatInterleave::Backward(const TensorList &grad_outputs) {
    auto dims = input_dims_;
    dims.insert(dims.begin() + dim_ + 1, repeat_);
    return {grad_outputs[0]->Reshape(dims)->Sum(dim_ + 1)};
}

}  // namespace autograd

TensorPtr Tensor::Transpose(int64_t dim0, int64_t dim1) {
    return std::make_shared<autograd::Transpose>(dim0, dim1)->Apply({Self()})[0];
}
TensorPtr Tensor::Slice(int64_t dim, int64_t start, int64_t end, int64_t step) {
    return std::make_shared<autograd::Slice>(dim, start, end, step)->Apply({Self()})[0];
}
TensorPtr Tensor::Slice(const std::vector<int64_t> &starts, const std::vector<int64_t> &ends,
                        const std::vector<int64_t> &steps) {
    return std::make_shared<autograd::Slice>(starts, ends, steps)->Apply({Self()})[0];
}
TensorPtr Tensor::Narrow(int64_t dim, int64_t start, int64_t length) {
    return std::make_shared<autograd::Narrow>(dim, start, length)->Apply({Self()})[0];
}
TensorList Tensor::Split(int64_t split_size, int64_t dim) {
    return std::make_shared<autograd::Split>(split_size, dim)->Apply({Self()});
}
TensorPtr Tensor::Tril(int64_t diagonal) {
    return std::make_shared<autograd::Tril>(diagonal)->Apply({Self()})[0];
}
TensorPtr Tensor::Triu(int64_t diagonal) {
    return std::make_shared<autograd::Triu>(diagonal)->Apply({Self()})[0];
}
TensorPtr Tensor::MaskedFill(const TensorPtr &mask, Scalar value) {
    return std::make_shared<autograd::Mask>(mask, value)->Apply({Self()})[0];
}
TensorPtr Tensor::RepeatInterleave(int64_t repeat, int64_t dim) {
    return std::make_shared<autograd::RepeatInterleave>(repeat, dim)->Apply({Self()})[0];
}

}  // namespace infini_train
