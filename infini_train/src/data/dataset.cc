#include "infini_train/include/dataset.h"

#include <functional>
#include <numeric>
#include <vector>

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/core/dispatcher.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/kernels/indexing.h"
#include "infini_train/src/tensor/ref.h"
#include "infini_train/src/tensor/shape.h"

namespace infini_train {
namespace {

void CheckIndex(int64_t index, size_t size, const char *name) {
    if (index < 0 || static_cast<size_t>(index) >= size) {
        Throw<IndexError>("{}: expected a sample below {}, got {}", name, size, index);
    }
}

std::vector<int64_t> WithRows(int64_t rows, const std::vector<int64_t> &dims) {
    std::vector<int64_t> result{rows};
    result.insert(result.end(), dims.begin(), dims.end());
    return result;
}

// Copies samples one by one into the rows of a batch, which the first one makes.
class Stack {
public:
    Stack(const char *what, size_t rows) : what_(what), rows_(static_cast<int64_t>(rows)) {}

    void Add(const TensorPtr &sample, int64_t index) {
        if (sample == nullptr) {
            Throw<ValueError>("Dataset::Batch: the {} of sample {} is null", what_, index);
        }
        if (batch_ == nullptr) {
            dims_ = sample->Dims();
            batch_ = Tensor::Empty(WithRows(rows_, dims_), sample->Dtype(), sample->GetDevice());
        }
        CheckAlike(*sample, index);
        batch_->Select(0, row_++)->CopyFrom(*sample);
    }
    const TensorPtr &batch() const { return batch_; }

private:
    void CheckAlike(const Tensor &sample, int64_t index) const {
        if (sample.Dims() != dims_) {
            Throw<ShapeError>("Dataset::Batch: the {} of sample {} has shape {}, those before it {}", what_, index,
                              FormatDims(sample.Dims()), FormatDims(dims_));
        }
        if (sample.Dtype() != batch_->Dtype()) {
            Throw<DtypeError>("Dataset::Batch: the {} of sample {} holds {}, those before it {}", what_, index,
                              ToString(sample.Dtype()), ToString(batch_->Dtype()));
        }
        if (sample.GetDevice() != batch_->GetDevice()) {
            Throw<DeviceError>("Dataset::Batch: the {} of sample {} is on {}, those before it on {}", what_, index,
                               sample.GetDevice().ToString(), batch_->GetDevice().ToString());
        }
    }

    const char *what_;
    int64_t rows_;
    int64_t row_ = 0;
    std::vector<int64_t> dims_;
    TensorPtr batch_;
};

TensorPtr CheckedRows(const TensorPtr &tensor, const char *what) {
    if (tensor == nullptr) {
        Throw<ValueError>("TensorDataset: expected {}, got null", what);
    }
    if (tensor->NumDims() == 0) {
        Throw<ShapeError>("TensorDataset: expected {} of shape (N, ...), got ()", what);
    }
    return ContiguousCopy(tensor->Detach());
}

TensorPtr GatherRows(const TensorPtr &tensor, const TensorPtr &indices) {
    const std::vector<int64_t> row(tensor->Dims().begin() + 1, tensor->Dims().end());
    const int64_t width = std::accumulate(row.begin(), row.end(), int64_t{1}, std::multiplies<>());
    const int64_t rows = indices->NumElements();
    const TensorPtr batch = Tensor::Empty(WithRows(rows, row), tensor->Dtype(), tensor->GetDevice());
    if (batch->NumElements() > 0) {
        const TensorPtr from = TryView(*tensor, {tensor->Dims()[0], width});
        const TensorPtr to = TryView(*batch, {rows, width});
        const TensorPtr where = indices->To(tensor->GetDevice());
        Dispatch<kernels::EmbeddingForward>(tensor->GetDevice(), Ref(to), Ref(from), Ref(where));
    }
    return batch;
}

}  // namespace

std::pair<TensorPtr, TensorPtr> Dataset::Batch(std::span<const int64_t> indices) const {
    if (indices.empty()) {
        throw ValueError("Dataset::Batch: expected at least one sample, got none");
    }
    const autograd::NoGradGuard no_grad;
    const size_t size = Size();
    Stack inputs("input", indices.size());
    Stack targets("target", indices.size());
    for (const int64_t index : indices) {
        CheckIndex(index, size, "Dataset::Batch");
        const auto [input, target] = (*this)[static_cast<size_t>(index)];
        inputs.Add(input, index);
        targets.Add(target, index);
    }
    return {inputs.batch(), targets.batch()};
}

TensorDataset::TensorDataset(const TensorPtr &inputs, const TensorPtr &targets)
    : inputs_(CheckedRows(inputs, "inputs")), targets_(CheckedRows(targets, "targets")) {
    if (inputs_->Dims()[0] != targets_->Dims()[0]) {
        Throw<ShapeError>("TensorDataset: inputs {} and targets {} don't match: {} against {} rows",
                          FormatDims(inputs_->Dims()), FormatDims(targets_->Dims()), inputs_->Dims()[0],
                          targets_->Dims()[0]);
    }
}

size_t TensorDataset::Size() const {
    return static_cast<size_t>(inputs_->Dims()[0]);
}

std::pair<TensorPtr, TensorPtr> TensorDataset::operator[](size_t idx) const {
    const autograd::NoGradGuard no_grad;
    const auto index = static_cast<int64_t>(idx);
    CheckIndex(index, Size(), "TensorDataset");
    return {inputs_->Select(0, index), targets_->Select(0, index)};
}

std::pair<TensorPtr, TensorPtr> TensorDataset::Batch(std::span<const int64_t> indices) const {
    const autograd::NoGradGuard no_grad;
    for (const int64_t index : indices) {
        CheckIndex(index, Size(), "TensorDataset::Batch");
    }
    const TensorPtr where = Tensor::FromVector(std::vector<int64_t>(indices.begin(), indices.end()));
    return {GatherRows(inputs_, where), GatherRows(targets_, where)};
}

}  // namespace infini_train
