#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train::autograd {

// Views: outputs that share the storage of their one input. Transpose, Slice, Narrow and Split are in transform.h.

/// Other dims over the same elements in row-major order; one may be -1. Throws ShapeError where the number of elements
/// differs or the input's strides would need a copy.
class INFINI_TRAIN_EXPORT View : public Function {
public:
    static constexpr char kType[] = "View";

    explicit View(std::vector<int64_t> dims) : Function(kType), dims_(std::move(dims)) {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    const std::vector<int64_t> dims_;
    std::vector<int64_t> input_dims_;
};

/// A View where the strides allow it, otherwise a contiguous copy of other dims.
class INFINI_TRAIN_EXPORT Reshape : public Function {
public:
    static constexpr char kType[] = "Reshape";

    explicit Reshape(std::vector<int64_t> dims) : Reshape(kType, std::move(dims)) {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

protected:
    Reshape(const char *type, std::vector<int64_t> dims) : Function(type), dims_(std::move(dims)) {}

private:
    const std::vector<int64_t> dims_;
    std::vector<int64_t> input_dims_;
};

/// Dimension i of the output is dimension order[i] of the input. Throws ShapeError if `order` doesn't have one entry a
/// dimension, IndexError for one out of range and ValueError for a repeated one.
class INFINI_TRAIN_EXPORT Permute : public Function {
public:
    static constexpr char kType[] = "Permute";

    explicit Permute(std::vector<int64_t> order) : Function(kType), order_(std::move(order)) {}

    TensorList Forward(const TensorList &inputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    std::vector<int64_t> order_;
};

/// One position of a dimension, which disappears; negative ones count from the end. Throws IndexError.
class INFINI_TRAIN_EXPORT Select : public Function {
public:
    static constexpr char kType[] = "Select";

    Select(int64_t dim, int64_t index) : Function(kType), dim_(dim), index_(index) {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    int64_t dim_;
    int64_t index_;
    std::vector<int64_t> input_dims_;
};

/// Repeats dimensions of size 1 (by a stride of 0) and adds dimensions in front; -1 keeps a size. Throws ShapeError.
class INFINI_TRAIN_EXPORT Expand : public Function {
public:
    static constexpr char kType[] = "Expand";

    explicit Expand(std::vector<int64_t> dims) : Function(kType), dims_(std::move(dims)) {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    const std::vector<int64_t> dims_;
    std::vector<int64_t> input_dims_;
};

/// Drops one dimension if its size is 1, or all such dimensions.
class INFINI_TRAIN_EXPORT Squeeze : public Function {
public:
    static constexpr char kType[] = "Squeeze";

    explicit Squeeze(std::optional<int64_t> dim = std::nullopt) : Function(kType), dim_(dim) {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    const std::optional<int64_t> dim_;
    std::vector<int64_t> input_dims_;
};

/// Adds a dimension of size 1 before dimension `dim` of the input; -1 adds it at the end. Throws IndexError.
class INFINI_TRAIN_EXPORT Unsqueeze : public Function {
public:
    static constexpr char kType[] = "Unsqueeze";

    explicit Unsqueeze(int64_t dim) : Function(kType), dim_(dim) {}

    TensorList Forward(const TensorList &inputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    int64_t dim_;
};

/// All positions of a dimension, each without it: one output a position. Throws ShapeError for a tensor without
/// dimensions.
class INFINI_TRAIN_EXPORT Unbind : public Function {
public:
    static constexpr char kType[] = "Unbind";

    explicit Unbind(int64_t dim = 0) : Function(kType), dim_(dim) {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    int64_t dim_;
    std::vector<int64_t> input_dims_;
};

/// No view, but what makes a tensor viewable: a contiguous copy.
class INFINI_TRAIN_EXPORT Contiguous : public Function {
public:
    static constexpr char kType[] = "Contiguous";

    Contiguous() : Function(kType) {}

    TensorList Forward(const TensorList &inputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;
};

}  // namespace infini_train::autograd
