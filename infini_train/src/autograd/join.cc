// Stack and Concat.

#include <algorithm>
#include <span>
#include <vector>

#include "infini_train/include/autograd/transform.h"
#include "infini_train/include/core/dispatcher.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/pieces.h"
#include "infini_train/src/common/format.h"
#include "infini_train/src/kernels/fill.h"
#include "infini_train/src/kernels/transform.h"
#include "infini_train/src/tensor/ref.h"
#include "infini_train/src/tensor/shape.h"

namespace infini_train::autograd {
namespace {

void CheckNotEmpty(const char *name, const TensorList &inputs) {
    if (inputs.empty()) {
        Throw<ValueError>("{}: expected at least one tensor, got none", name);
    }
    CheckOperands(name, inputs);
}

DataType CommonDtype(const TensorList &inputs) {
    DataType dtype = inputs[0]->Dtype();
    for (const auto &input : inputs) {
        dtype = PromoteTypes(dtype, input->Dtype());
    }
    return dtype;
}

// Joins `parts`, whose dims match `dims` but for `dim`: blocks of memory where they are dense, else one copy each.
TensorPtr Join(const TensorList &parts, const std::vector<int64_t> &dims, int64_t dim, DataType dtype) {
    auto output = Tensor::Empty(dims, dtype, parts[0]->GetDevice());
    const bool dense = std::all_of(parts.begin(), parts.end(), [&](const TensorPtr &part) {
        return part->IsContiguous() && part->Dtype() == dtype;
    });
    if (dense) {
        std::vector<ConstTensorRef> refs;
        refs.reserve(parts.size());
        for (const auto &part : parts) {
            refs.push_back(Ref(part));
        }
        Dispatch<kernels::Concat>(output->GetDevice(), Ref(output), std::span<const ConstTensorRef>(refs),
                                  static_cast<int>(dim));
        return output;
    }
    int64_t start = 0;
    for (const auto &part : parts) {
        const DimSlice slice{dim, start, part->Dims()[static_cast<size_t>(dim)], 1};
        Dispatch<kernels::Copy>(output->GetDevice(), Ref(SliceView(*output, {&slice, 1})), Ref(part));
        start += slice.length;
    }
    return output;
}

void CheckMatch(const Tensor &first, const Tensor &other, int64_t dim) {
    const auto &a = first.Dims();
    const auto &b = other.Dims();
    if (a.size() != b.size()) {
        Throw<ShapeError>("Concat: {} and {} don't have the same number of dimensions", FormatDims(a), FormatDims(b));
    }
    for (size_t d = 0; d < a.size(); ++d) {
        if (a[d] != b[d] && static_cast<int64_t>(d) != dim) {
            Throw<ShapeError>("Concat: {} and {} don't match along dim {}: {} against {}", FormatDims(a), FormatDims(b),
                              dim, a[d], b[d]);
        }
    }
}

}  // namespace

TensorList Stack::Forward(const TensorList &inputs) {
    CheckNotEmpty(kType, inputs);
    auto dims = inputs[0]->Dims();
    const int64_t places = inputs[0]->NumDims() + 1;
    if (dim_ < -places || dim_ >= places) {
        Throw<IndexError>("Stack: dim {} is out of range for {} places", dim_, places);
    }
    dim_ += dim_ < 0 ? places : 0;
    TensorList parts;
    parts.reserve(inputs.size());
    for (const auto &input : inputs) {
        if (input->Dims() != dims) {
            Throw<ShapeError>("Stack: expected equal dims, got {} and {}", FormatDims(dims), FormatDims(input->Dims()));
        }
        parts.push_back(UnsqueezeView(*input, dim_));
    }
    dims.insert(dims.begin() + dim_, static_cast<int64_t>(inputs.size()));
    return {Join(parts, dims, dim_, CommonDtype(inputs))};
}

void Stack::SetupContext(const TensorList &inputs, const TensorList &) {
    input_dtypes_.clear();
    for (const auto &input : inputs) {
        input_dtypes_.push_back(input->Dtype());
    }
}

TensorList Stack::Backward(const TensorList &grad_outputs) {
    TensorList grads(input_dtypes_.size());
    for (size_t i = 0; i < grads.size(); ++i) {
        if (ctx_.needs_input_grad(i)) {
            grads[i] = grad_outputs[0]->Select(dim_, static_cast<int64_t>(i))->To(input_dtypes_[i]);
        }
    }
    return grads;
}

TensorList Concat::Forward(const TensorList &inputs) {
    CheckNotEmpty(kType, inputs);
    const std::vector<int64_t> void_dims{0};
    const auto is_real = [&](const TensorPtr &input) { return input->Dims() != void_dims; };
    auto first = std::find_if(inputs.begin(), inputs.end(), is_real);
    if (first == inputs.end()) {
        first = inputs.begin();
    }
    auto dims = (*first)->Dims();
    if (dims.empty()) {
        Throw<ShapeError>("Concat: tensors without dimensions can't be joined; use Stack");
    }
    dim_ = NormalizeDim(dim_, (*first)->NumDims(), kType);
    int64_t &total = dims[static_cast<size_t>(dim_)];
    total = 0;
    TensorList parts;
    pieces_.clear();
    for (const auto &input : inputs) {
        const bool is_void = dims.size() != 1 && !is_real(input);
        if (!is_void) {
            CheckMatch(**first, *input, dim_);
            parts.push_back(input);
            total += input->Dims()[static_cast<size_t>(dim_)];
        }
        pieces_.push_back({input->Dtype(), is_void ? 0 : input->Dims()[static_cast<size_t>(dim_)], is_void});
    }
    return {Join(parts, dims, dim_, CommonDtype(inputs))};
}

TensorList Concat::Backward(const TensorList &grad_outputs) {
    const TensorPtr &grad = grad_outputs[0];
    TensorList grads(pieces_.size());
    int64_t start = 0;
    for (size_t i = 0; i < grads.size(); ++i) {
        const auto &[dtype, length, is_void] = pieces_[i];
        if (ctx_.needs_input_grad(i)) {
            grads[i] =
                is_void ? Tensor::Empty({0}, dtype, grad->GetDevice()) : grad->Narrow(dim_, start, length)->To(dtype);
        }
        start += length;
    }
    return grads;
}

}  // namespace infini_train::autograd
