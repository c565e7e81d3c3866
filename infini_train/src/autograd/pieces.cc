#include "infini_train/src/autograd/pieces.h"

#include <algorithm>

#include "infini_train/include/core/dispatcher.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/kernels/fill.h"
#include "infini_train/src/tensor/ref.h"
#include "infini_train/src/tensor/shape.h"

namespace infini_train::autograd {

TensorPtr SliceView(const Tensor &tensor, std::span<const DimSlice> slices) {
    auto dims = tensor.Dims();
    auto strides = tensor.Strides();
    int64_t offset = tensor.StorageOffset();
    for (const auto &slice : slices) {
        const auto d = static_cast<size_t>(slice.dim);
        offset += slice.start * strides[d];
        dims[d] = slice.length;
        strides[d] *= slice.step;
    }
    return std::make_shared<Tensor>(tensor.storage(), std::move(dims), std::move(strides), offset, tensor.Dtype());
}

TensorPtr SelectView(const Tensor &tensor, int64_t dim, int64_t index) {
    auto dims = tensor.Dims();
    auto strides = tensor.Strides();
    const int64_t offset = tensor.StorageOffset() + index * strides[static_cast<size_t>(dim)];
    dims.erase(dims.begin() + dim);
    strides.erase(strides.begin() + dim);
    return std::make_shared<Tensor>(tensor.storage(), std::move(dims), std::move(strides), offset, tensor.Dtype());
}

TensorPtr UnsqueezeView(const Tensor &tensor, int64_t dim) {
    auto dims = tensor.Dims();
    auto strides = tensor.Strides();
    const int64_t stride =
        dim < tensor.NumDims() ? dims[static_cast<size_t>(dim)] * strides[static_cast<size_t>(dim)] : 1;
    dims.insert(dims.begin() + dim, 1);
    strides.insert(strides.begin() + dim, stride);
    return std::make_shared<Tensor>(tensor.storage(), std::move(dims), std::move(strides), tensor.StorageOffset(),
                                    tensor.Dtype());
}

namespace {

void Copy(const TensorPtr &to, const TensorPtr &from) {
    Dispatch<kernels::Copy>(to->GetDevice(), Ref(to), Ref(from));
}

// Zeros of `input_dims` with the input in the strided part that `slices` name.
class SliceBackward : public Function {
public:
    static constexpr char kType[] = "SliceBackward";

    SliceBackward(std::vector<int64_t> input_dims, std::vector<DimSlice> slices)
        : Function(kType), input_dims_(std::move(input_dims)), slices_(std::move(slices)) {}

    TensorList Forward(const TensorList &inputs) override {
        const TensorPtr &grad = inputs[0];
        auto result = Tensor::Zeros(input_dims_, grad->Dtype(), grad->GetDevice());
        Copy(SliceView(*result, slices_), grad);
        return {result};
    }

    TensorList Backward(const TensorList &grad_outputs) override {
        return {std::make_shared<Slice>(slices_)->Apply({grad_outputs[0]})[0]};
    }

private:
    const std::vector<int64_t> input_dims_;
    const std::vector<DimSlice> slices_;
};

struct Piece {
    int64_t start;
    int64_t length;
};

// The inputs at their places along `dim`, zeros between them. In the order of their starts.
class PiecesBackward : public Function {
public:
    static constexpr char kType[] = "PiecesBackward";

    PiecesBackward(std::vector<int64_t> input_dims, int64_t dim, std::vector<Piece> pieces, bool drops_dim)
        : Function(kType),
          input_dims_(std::move(input_dims)),
          dim_(dim),
          pieces_(std::move(pieces)),
          drops_dim_(drops_dim) {}

    TensorList Forward(const TensorList &inputs) override {
        if (const auto whole = WholeOf(inputs)) {
            return {whole};
        }
        auto result = Tensor::Empty(input_dims_, inputs[0]->Dtype(), inputs[0]->GetDevice());
        const auto part = [&](int64_t start, int64_t end) {
            const DimSlice slice{dim_, start, end - start, 1};
            return SliceView(*result, {&slice, 1});
        };
        const auto zero = [&](int64_t start, int64_t end) {
            if (start < end) {
                Dispatch<kernels::Fill>(result->GetDevice(), Ref(part(start, end)), Scalar(0));
            }
        };
        int64_t done = 0;
        for (size_t i = 0; i < pieces_.size(); ++i) {
            const auto [start, length] = pieces_[i];
            zero(done, start);
            Copy(drops_dim_ ? SelectView(*result, dim_, start) : part(start, start + length), inputs[i]);
            done = start + length;
        }
        zero(done, input_dims_[static_cast<size_t>(dim_)]);
        return {result};
    }

    TensorList Backward(const TensorList &grad_outputs) override {
        TensorList grads(pieces_.size());
        for (size_t i = 0; i < grads.size(); ++i) {
            if (ctx_.needs_input_grad(i)) {
                const auto [start, length] = pieces_[i];
                grads[i] =
                    drops_dim_ ? grad_outputs[0]->Select(dim_, start) : grad_outputs[0]->Narrow(dim_, start, length);
            }
        }
        return grads;
    }

private:
    // The tensor that the inputs are views of, if they lie in one memory just as they would there; else null.
    TensorPtr WholeOf(const TensorList &inputs) const {
        const auto dim = static_cast<size_t>(dim_);
        const auto strides = ContiguousStrides(input_dims_);
        auto piece_strides = strides;
        if (drops_dim_) {
            piece_strides.erase(piece_strides.begin() + dim_);
        }
        const Tensor &first = *inputs[0];
        int64_t done = 0;
        for (size_t i = 0; i < pieces_.size(); ++i) {
            const Tensor &x = *inputs[i];
            if (pieces_[i].start != done || x.storage() != first.storage() || x.Strides() != piece_strides ||
                x.StorageOffset() != first.StorageOffset() + done * strides[dim] || x.NumElements() == 0) {
                return nullptr;
            }
            done += pieces_[i].length;
        }
        if (done != input_dims_[dim]) {
            return nullptr;
        }
        return std::make_shared<Tensor>(first.storage(), input_dims_, strides, first.StorageOffset(), first.Dtype());
    }

    const std::vector<int64_t> input_dims_;
    const int64_t dim_;
    const std::vector<Piece> pieces_;
    const bool drops_dim_;
};

}  // namespace

TensorPtr SliceGrad(const TensorPtr &grad, const std::vector<int64_t> &input_dims,
                    const std::vector<DimSlice> &slices) {
    if (slices.empty()) {
        return grad;
    }
    if (slices.size() == 1 && slices[0].step == 1) {
        const std::vector<Piece> pieces{{slices[0].start, slices[0].length}};
        return std::make_shared<PiecesBackward>(input_dims, slices[0].dim, pieces, false)->Apply({grad})[0];
    }
    return std::make_shared<SliceBackward>(input_dims, slices)->Apply({grad})[0];
}

TensorPtr JoinGrads(const TensorList &grads, const std::vector<int64_t> &input_dims, int64_t dim,
                    const std::vector<int64_t> &sizes, bool drops_dim) {
    TensorList present;
    std::vector<Piece> pieces;
    int64_t start = 0;
    for (size_t i = 0; i < grads.size(); ++i) {
        if (grads[i] != nullptr) {
            present.push_back(grads[i]);
            pieces.push_back({start, sizes[i]});
        }
        start += sizes[i];
    }
    if (present.empty()) {
        return nullptr;
    }
    return std::make_shared<PiecesBackward>(input_dims, dim, std::move(pieces), drops_dim)->Apply(present)[0];
}

}  // namespace infini_train::autograd
