#include "infini_train/include/autograd/matmul.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "infini_train/include/autograd/grad_mode.h"

#include "infini_train/src/autograd/matrix.h"
#include "infini_train/src/autograd/operands.h"
#include "infini_train/src/autograd/sum_to.h"
#include "infini_train/src/common/format.h"
#include "infini_train/src/kernels/matmul.h"
#include "infini_train/src/tensor/ref.h"
#include "infini_train/src/tensor/shape.h"

namespace infini_train::autograd {
namespace {

// An operand with the batch dimensions of the result.
struct Batched {
    TensorPtr tensor;
    std::vector<int64_t> dims, strides;

    Batched(TensorPtr from, bool row, const std::vector<int64_t> &batch) {
        const auto matrix_at = static_cast<size_t>(std::max<int64_t>(from->NumDims() - 2, 0));
        const bool fits =
            from->NumDims() < 2 || IsMatrixLayout(from->Dims()[matrix_at], from->Dims()[matrix_at + 1],
                                                  from->Strides()[matrix_at], from->Strides()[matrix_at + 1]);
        tensor = fits && from->NumDims() >= 2 ? std::move(from) : ContiguousCopy(from);
        dims = batch;
        strides.assign(batch.size(), 0);
        const auto &own = tensor->Dims();
        for (size_t i = 0; i < matrix_at; ++i) {
            const size_t at = batch.size() - matrix_at + i;
            strides[at] = own[i] == batch[at] ? tensor->Strides()[i] : 0;
        }
        if (tensor->NumDims() == 1) {
            dims.insert(dims.end(), {row ? 1 : own[0], row ? own[0] : 1});
            strides.insert(strides.end(), {row ? own[0] : 1, 1});
        } else {
            dims.insert(dims.end(), own.end() - 2, own.end());
            strides.insert(strides.end(), tensor->Strides().end() - 2, tensor->Strides().end());
        }
    }

    ConstTensorRef ref() const {
        ConstTensorRef ref = Ref(std::as_const(*tensor));
        ref.dims = dims.data();
        ref.strides = strides.data();
        ref.ndim = static_cast<int>(dims.size());
        return ref;
    }
};

// Checks the shapes of both operands; gives the batch dimensions of the result.
std::vector<int64_t> CheckShapes(const Tensor &a, const Tensor &b) {
    const auto &x = a.Dims();
    const auto &y = b.Dims();
    if (x.empty() || y.empty()) {
        Throw<ShapeError>("Matmul: expected at least 1 dimension, got {} and {}", FormatDims(x), FormatDims(y));
    }
    const int64_t inner = y.size() == 1 ? y[0] : y[y.size() - 2];
    if (x.back() != inner) {
        Throw<ShapeError>("Matmul: {} and {} don't match: {} against {}", FormatDims(x), FormatDims(y), x.back(),
                          inner);
    }
    const size_t x_batch = std::max<size_t>(x.size(), 2) - 2, y_batch = std::max<size_t>(y.size(), 2) - 2;
    std::vector<int64_t> batch(std::max(x_batch, y_batch), 1);
    for (size_t i = 1; i <= batch.size(); ++i) {
        const int64_t p = i <= x_batch ? x[x_batch - i] : 1, q = i <= y_batch ? y[y_batch - i] : 1;
        if (p != q && p != 1 && q != 1) {
            Throw<ShapeError>("Matmul: {} and {} don't broadcast: {} against {}", FormatDims(x), FormatDims(y), p, q);
        }
        batch[batch.size() - i] = p == 1 ? q : p;
    }
    return batch;
}

TensorPtr MultiplyTensors(const TensorPtr &a, const TensorPtr &b) {
    std::vector<int64_t> batch = CheckShapes(*a, *b);
    if (b->NumDims() <= 2) {
        // A batch of matrices times one matrix is a single product.
        std::vector<int64_t> dims(a->Dims().begin(), a->Dims().end() - 1);
        if (b->NumDims() == 1) {
            return Multiply(MatrixView::FoldRows(a), MatrixView::Column(b), dims);
        }
        dims.push_back(b->Dims()[1]);
        return Multiply(MatrixView::FoldRows(a), MatrixView::FoldRows(b), dims);
    }
    const Batched left(a, true, batch), right(b, false, batch);
    std::vector<int64_t> full = batch;
    full.insert(full.end(), {left.dims[left.dims.size() - 2], right.dims.back()});
    std::vector<int64_t> dims = std::move(batch);
    if (a->NumDims() > 1) {
        dims.push_back(full[full.size() - 2]);
    }
    dims.push_back(full.back());
    auto output = Tensor::Empty(dims, a->Dtype(), a->GetDevice());
    const std::vector<int64_t> strides = ContiguousStrides(full);
    TensorRef ref = Ref(output);
    ref.dims = full.data();
    ref.strides = strides.data();
    ref.ndim = static_cast<int>(full.size());
    Dispatch<kernels::Matmul>(output->GetDevice(), ref, left.ref(), right.ref(), ConstTensorRef());
    return output;
}

// The gradients of a (..., m, k) x (k, n) in one product each; made of differentiable operators if `recorded`.
TensorPtr FoldedGradA(const TensorPtr &grad, const TensorPtr &b, const std::vector<int64_t> &dims, bool recorded) {
    if (recorded) {
        return grad->Matmul(b->Transpose(0, 1));
    }
    return Multiply(MatrixView::FoldRows(grad), MatrixView::FoldRows(b).Transposed(), dims);
}

TensorPtr FoldedGradB(const TensorPtr &a, const TensorPtr &grad, bool recorded) {
    const int64_t k = a->Dims().back(), n = grad->Dims().back();
    if (recorded) {
        int64_t rows = 1;
        for (size_t i = 0; i + 1 < a->Dims().size(); ++i) {
            rows *= a->Dims()[i];
        }
        return a->Reshape({rows, k})->Transpose(0, 1)->Matmul(grad->Reshape({rows, n}));
    }
    return Multiply(MatrixView::FoldRows(a).Transposed(), MatrixView::FoldRows(grad), {k, n});
}

}  // namespace

TensorList Matmul::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 2);
    CheckSameDtype(kType, inputs, true);
    const DataType dtype = inputs[0]->Dtype();
    const bool direct = IsFloatingPoint(dtype) || dtype == DataType::kINT32 || dtype == DataType::kINT64;
    if (direct) {
        return {MultiplyTensors(inputs[0], inputs[1])};
    }
    // The narrow part of a product is the product of the narrow parts, so other integers go through int64.
    const auto product =
        MultiplyTensors(CastCopy(*inputs[0], DataType::kINT64), CastCopy(*inputs[1], DataType::kINT64));
    return {CastCopy(*product, dtype)};
}

void Matmul::SetupContext(const TensorList &inputs, const TensorList & /*outputs*/) {
    a_dims_ = inputs[0]->Dims();
    b_dims_ = inputs[1]->Dims();
    ctx_.SaveForBackward(
        {ctx_.needs_input_grad(1) ? inputs[0] : nullptr, ctx_.needs_input_grad(0) ? inputs[1] : nullptr});
}

TensorList Matmul::Backward(const TensorList &grad_outputs) {
    const bool need_a = ctx_.needs_input_grad(0), need_b = ctx_.needs_input_grad(1);
    const TensorList saved = ctx_.GetSavedTensors();
    TensorPtr grad = grad_outputs[0], a = saved[0], b = saved[1];
    const bool recorded = GradMode::IsEnabled();
    if (a_dims_.size() > 1 && b_dims_.size() == 2) {
        return {need_a ? FoldedGradA(grad, b, a_dims_, recorded) : nullptr,
                need_b ? FoldedGradB(a, grad, recorded) : nullptr};
    }
    // Vectors become matrices of one row or column, and their gradients lose it again.
    std::vector<int64_t> a_matrix = a_dims_, b_matrix = b_dims_;
    if (b_dims_.size() == 1) {
        b_matrix.push_back(1);
        grad = grad->Unsqueeze(-1);
        b = b == nullptr ? nullptr : b->Unsqueeze(1);
    }
    if (a_dims_.size() == 1) {
        a_matrix.insert(a_matrix.begin(), 1);
        grad = grad->Unsqueeze(-2);
        a = a == nullptr ? nullptr : a->Unsqueeze(0);
    }
    TensorList grads(2);
    if (need_a) {
        grads[0] = SumTo(grad->Matmul(b->Transpose(-1, -2)), a_matrix)->Reshape(a_dims_);
    }
    if (need_b) {
        grads[1] = SumTo(a->Transpose(-1, -2)->Matmul(grad), b_matrix)->Reshape(b_dims_);
    }
    return grads;
}

}  // namespace infini_train::autograd

namespace infini_train {

TensorPtr Tensor::Matmul(const TensorPtr &other) {
    return std::make_shared<autograd::Matmul>()->Apply({Self(), other})[0];
}

}  // namespace infini_train
