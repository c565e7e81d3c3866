#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train {

/// Samples by number, each an input and its target.
class INFINI_TRAIN_EXPORT Dataset {
public:
    virtual ~Dataset() = default;

    /// Sample `idx` < Size(). All inputs have the same dims, data type and device, and so have all targets.
    virtual std::pair<TensorPtr, TensorPtr> operator[](size_t idx) const = 0;
    virtual size_t Size() const = 0;

    /// The samples of these numbers (at least one), stacked along a new first dimension. A dataset that has its samples
    /// side by side can do better than this, which asks for one after the other. Must not depend on earlier calls: a
    /// loader may call it from several threads. Throws ValueError for no numbers or a null tensor, IndexError for a
    /// number out of range, and ShapeError, DtypeError or DeviceError where samples differ.
    virtual std::pair<TensorPtr, TensorPtr> Batch(std::span<const int64_t> indices) const;
};

/// The rows of two tensors: inputs (N, ...) and targets (N, ...), of any data type.
class INFINI_TRAIN_EXPORT TensorDataset : public Dataset {
public:
    /// Throws ValueError for a null tensor, ShapeError for one without dims or for two that differ in N.
    TensorDataset(const TensorPtr &inputs, const TensorPtr &targets);

    /// Views; throws IndexError.
    std::pair<TensorPtr, TensorPtr> operator[](size_t idx) const override;
    size_t Size() const override;
    /// Copies of the rows; no numbers give tensors of no rows.
    std::pair<TensorPtr, TensorPtr> Batch(std::span<const int64_t> indices) const override;

private:
    TensorPtr inputs_;  // contiguous, as are the targets
    TensorPtr targets_;
};

}  // namespace infini_train
