// Gather, Scatter and Embedding: what depends on a tensor of indices.

#include "infini_train/src/autograd/lookup.h"

#include "infini_train/include/autograd/gather.h"
#include "infini_train/include/autograd/scatter.h"
#include "infini_train/include/autograd/sparse.h"
#include "infini_train/include/core/dispatcher.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/graph_task.h"
#include "infini_train/src/autograd/operands.h"
#include "infini_train/src/common/format.h"
#include "infini_train/src/kernels/indexing.h"
#include "infini_train/src/tensor/ref.h"
#include "infini_train/src/tensor/shape.h"

namespace infini_train {
namespace autograd {

TensorPtr CheckedIndex(const TensorPtr &index, int64_t limit, const char *name, const std::string &what) {
    if (!IsIntegral(index->Dtype())) {
        Throw<DtypeError>("{}: expected an index of an integer type, got {}", name, ToString(index->Dtype()));
    }
    const auto result = index->Dtype() == DataType::kINT64 ? ContiguousCopy(index) : CastCopy(*index, DataType::kINT64);
    int64_t bad = Dispatch<kernels::FindBadIndex>(result->GetDevice(), Ref(result), limit);
    if (bad < 0) {
        return result;
    }
    std::vector<int64_t> position(index->Dims().size());
    int64_t offset = index->StorageOffset();
    for (size_t d = position.size(); d-- > 0;) {
        position[d] = bad % index->Dims()[d];
        bad /= index->Dims()[d];
        offset += position[d] * index->Strides()[d];
    }
    const Tensor element(index->storage(), {}, {}, offset, index->Dtype());
    Throw<IndexError>("{}: index {} at {} is out of range for {}", name, element.Item().ToString(),
                      FormatDims(position), what);
}

void CheckIndexDims(const std::vector<int64_t> &dims, const std::vector<int64_t> &index, int64_t dim,
                    const char *name) {
    if (dims.size() != index.size()) {
        Throw<ShapeError>("{}: {} and an index of {} don't have the same number of dimensions", name, FormatDims(dims),
                          FormatDims(index));
    }
    for (size_t d = 0; d < dims.size(); ++d) {
        if (static_cast<int64_t>(d) != dim && index[d] > dims[d]) {
            Throw<ShapeError>("{}: an index of {} reaches outside of {}: {} against {}", name, FormatDims(index),
                              FormatDims(dims), index[d], dims[d]);
        }
    }
}

TensorPtr AtLeastOneDim(const TensorPtr &tensor) {
    return tensor->NumDims() > 0 ? tensor : TryView(*tensor, {1});
}

namespace {

std::string DimensionOfSize(int64_t dim, int64_t size) {
    return "dimension " + std::to_string(dim) + " of size " + std::to_string(size);
}

// The type in which sums of `dtype` are made.
DataType SumDtype(DataType dtype) {
    if (dtype == DataType::kFLOAT32 || dtype == DataType::kFLOAT64) {
        return dtype;
    }
    return IsFloatingPoint(dtype) ? DataType::kFLOAT32 : DataType::kINT64;
}

TensorPtr AsDtype(const TensorPtr &tensor, DataType dtype) {
    return tensor->Dtype() == dtype ? tensor : CastCopy(*tensor, dtype);
}

}  // namespace

TensorList Gather::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 2);
    const auto &input = inputs[0];
    dim_ = NormalizeDim(dim_, input->NumDims(), kType);
    CheckIndexDims(input->Dims(), inputs[1]->Dims(), dim_, kType);
    const auto source = AtLeastOneDim(input);
    const int64_t size = source->Dims()[static_cast<size_t>(dim_)];
    index_ = CheckedIndex(inputs[1], size, kType, DimensionOfSize(dim_, size));
    auto output = Tensor::Empty(index_->Dims(), input->Dtype(), input->GetDevice());
    const auto target = AtLeastOneDim(output);
    const auto index = AtLeastOneDim(index_);
    Dispatch<kernels::Gather>(input->GetDevice(), Ref(target), Ref(source), Ref(index), static_cast<int>(dim_));
    return {output};
}

void Gather::SetupContext(const TensorList &inputs, const TensorList &) {
    input_dims_ = inputs[0]->Dims();
    ctx_.SaveForBackward({index_});
    index_ = nullptr;
}

TensorList Gather::Backward(const TensorList &grad_outputs) {
    const auto index = ctx_.GetSavedTensors()[0];
    return {std::make_shared<Scatter>(input_dims_, dim_)->Apply({grad_outputs[0], index})[0], nullptr};
}

TensorList Scatter::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 2);
    const auto &values = inputs[0];
    const DataType dtype = values->Dtype();
    if (values->Dims() != inputs[1]->Dims()) {
        Throw<ShapeError>("Scatter: values of {} and an index of {} don't match", FormatDims(values->Dims()),
                          FormatDims(inputs[1]->Dims()));
    }
    dim_ = NormalizeDim(dim_, static_cast<int64_t>(output_dims_.size()), kType);
    CheckIndexDims(output_dims_, values->Dims(), dim_, kType);
    const DataType sum_dtype = SumDtype(dtype);
    auto output = Tensor::Zeros(output_dims_, sum_dtype, values->GetDevice());
    const auto target = AtLeastOneDim(output);
    const int64_t size = target->Dims()[static_cast<size_t>(dim_)];
    index_ = CheckedIndex(inputs[1], size, kType, DimensionOfSize(dim_, size));
    const auto source = AtLeastOneDim(AsDtype(values, sum_dtype));
    const auto index = AtLeastOneDim(index_);
    Dispatch<kernels::ScatterAdd>(values->GetDevice(), Ref(target), Ref(source), Ref(index), static_cast<int>(dim_));
    return {AsDtype(output, dtype)};
}

void Scatter::SetupContext(const TensorList &, const TensorList &) {
    ctx_.SaveForBackward({index_});
    index_ = nullptr;
}

TensorList Scatter::Backward(const TensorList &grad_outputs) {
    const auto index = ctx_.GetSavedTensors()[0];
    return {std::make_shared<Gather>(dim_)->Apply({grad_outputs[0], index})[0], nullptr};
}

namespace {

// The gradient of an Embedding's weight, from grad (..., D) and the contiguous int64 indices, all of them in range.
class EmbeddingBackward : public Function {
public:
    static constexpr char kType[] = "EmbeddingBackward";

    explicit EmbeddingBackward(std::vector<int64_t> weight_dims)
        : Function(kType), weight_dims_(std::move(weight_dims)) {}

    TensorList Forward(const TensorList &inputs) override {
        const DataType dtype = inputs[0]->Dtype();
        const auto result = Tensor::Zeros(weight_dims_, SumDtype(dtype), inputs[0]->GetDevice());
        AddTo(result, inputs[0], inputs[1]);
        return {AsDtype(result, dtype)};
    }

    /// Adds to the rows of `sum`, contiguous and of the type for sums.
    static void AddTo(const TensorPtr &sum, const TensorPtr &grad, const TensorPtr &index) {
        const auto dense = ContiguousCopy(AsDtype(grad, sum->Dtype()));
        const auto rows = TryView(*dense, {index->NumElements(), sum->Dims()[1]});
        Dispatch<kernels::EmbeddingBackward>(sum->GetDevice(), Ref(sum), Ref(rows), Ref(index));
    }

    void SetupContext(const TensorList &inputs, const TensorList &) override { ctx_.SaveForBackward({inputs[1]}); }

    TensorList Backward(const TensorList &grad_outputs) override {
        const auto index = ctx_.GetSavedTensors()[0];
        return {std::make_shared<Embedding>()->Apply({index, grad_outputs[0]})[0], nullptr};
    }

private:
    const std::vector<int64_t> weight_dims_;
};

}  // namespace

TensorList Embedding::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 2);
    TensorPtr weight = inputs[1];
    if (weight->NumDims() != 2) {
        Throw<ShapeError>("Embedding: expected a weight of two dimensions, got {}", FormatDims(weight->Dims()));
    }
    const int64_t rows = weight->Dims()[0];
    index_ = CheckedIndex(inputs[0], rows, kType, std::to_string(rows) + " rows");
    if (weight->Strides()[1] != 1) {
        weight = ContiguousCopy(weight);
    }
    auto dims = index_->Dims();
    dims.push_back(weight->Dims()[1]);
    auto output = Tensor::Empty(dims, weight->Dtype(), weight->GetDevice());
    Dispatch<kernels::EmbeddingForward>(weight->GetDevice(), Ref(output), Ref(weight), Ref(index_));
    return {output};
}

void Embedding::SetupContext(const TensorList &inputs, const TensorList &) {
    weight_dims_ = inputs[1]->Dims();
    ctx_.SaveForBackward({index_});
    index_ = nullptr;
}

TensorList Embedding::Backward(const TensorList &grad_outputs) {
    const auto index = ctx_.GetSavedTensors()[0];
    const auto &grad = grad_outputs[0];
    if (grad->Dtype() == SumDtype(grad->Dtype())) {
        // Where the weight is the output layer's too, its whole gradient from there has come already.
        if (auto sum = GraphTask::TakeSum(*this, 1)) {
            EmbeddingBackward::AddTo(sum, grad, index);
            return {nullptr, std::move(sum)};
        }
    }
    return {nullptr, std::make_shared<EmbeddingBackward>(weight_dims_)->Apply({grad, index})[0]};
}

}  // namespace autograd

TensorPtr Tensor::Gather(int64_t dim, const TensorPtr &index) {
    return std::make_shared<autograd::Gather>(dim)->Apply({Self(), index})[0];
}

}  // namespace infini_train
