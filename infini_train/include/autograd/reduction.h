#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/datatype.h"

namespace infini_train::autograd {

/// What Sum, Mean, Max and Min have in common. Each reduces one tensor over some of its dimensions, or all where none
/// are given; they disappear, or stay with size 1 if `keep_dim`. Dimensions may count from the end. IndexError for one
/// that isn't there, ValueError for one given twice. No result depends on the number of threads.
class INFINI_TRAIN_EXPORT ReduceFunction : public Function {
public:
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;

protected:
    ReduceFunction(const char *type, std::vector<int64_t> dims, bool keep_dim)
        : Function(type), dims_(std::move(dims)), keep_dim_(keep_dim) {}

    // Checks the dimensions, finds out the shapes below and allocates the output.
    TensorPtr Prepare(const TensorList &inputs, DataType output_dtype);
    // The gradient with the reduced dimensions back, of size 1.
    TensorPtr Kept(const TensorPtr &grad) const;
    int64_t Count() const;

    const std::vector<int64_t> dims_;  // as given; empty: all
    const bool keep_dim_;
    std::vector<int64_t> reduced_;  // counted from the front
    std::vector<int64_t> input_dims_;
    std::vector<int64_t> kept_dims_;  // of the output if it keeps all dimensions
};

/// The sum; 0 of nothing. Floating-point types stay and lose little: float32 and narrower add up in float32 blocks and
/// the blocks in float64. Integers and bool give int64, which wraps.
class INFINI_TRAIN_EXPORT Sum : public ReduceFunction {
public:
    static constexpr char kType[] = "Sum";

    explicit Sum(std::vector<int64_t> dims = {}, bool keep_dim = false)
        : ReduceFunction(kType, std::move(dims), keep_dim) {}
    explicit Sum(int64_t dim, bool keep_dim = false) : Sum(std::vector<int64_t>{dim}, keep_dim) {}

    TensorList Forward(const TensorList &inputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;
};

/// The average; NaN of nothing. DtypeError unless the input is floating-point.
class INFINI_TRAIN_EXPORT Mean : public ReduceFunction {
public:
    static constexpr char kType[] = "Mean";

    explicit Mean(std::vector<int64_t> dims = {}, bool keep_dim = false)
        : ReduceFunction(kType, std::move(dims), keep_dim) {}
    explicit Mean(int64_t dim, bool keep_dim = false) : Mean(std::vector<int64_t>{dim}, keep_dim) {}

    TensorList Forward(const TensorList &inputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;
};

/// The largest element, NaN if there is one; of any data type. Ties share the gradient evenly. ShapeError where an
/// empty dimension is reduced.
class INFINI_TRAIN_EXPORT Max : public ReduceFunction {
public:
    static constexpr char kType[] = "Max";

    explicit Max(std::vector<int64_t> dims = {}, bool keep_dim = false)
        : ReduceFunction(kType, std::move(dims), keep_dim) {}
    explicit Max(int64_t dim, bool keep_dim = false) : Max(std::vector<int64_t>{dim}, keep_dim) {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;
};

/// The smallest element, as Max.
class INFINI_TRAIN_EXPORT Min : public ReduceFunction {
public:
    static constexpr char kType[] = "Min";

    explicit Min(std::vector<int64_t> dims = {}, bool keep_dim = false)
        : ReduceFunction(kType, std::move(dims), keep_dim) {}
    explicit Min(int64_t dim, bool keep_dim = false) : Min(std::vector<int64_t>{dim}, keep_dim) {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;
};

/// The position (int64) of the first largest element along a dimension, or of the whole tensor in row-major order; the
/// first NaN counts as largest. No gradient. ShapeError where an empty dimension is searched.
class INFINI_TRAIN_EXPORT Argmax : public Function {
public:
    static constexpr char kType[] = "Argmax";

    explicit Argmax(std::optional<int64_t> dim = std::nullopt, bool keep_dim = false)
        : Function(kType), dim_(dim), keep_dim_(keep_dim) {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    const std::optional<int64_t> dim_;
    const bool keep_dim_;
};

/// The position of the first smallest element, as Argmax; the first NaN counts as smallest.
class INFINI_TRAIN_EXPORT Argmin : public Function {
public:
    static constexpr char kType[] = "Argmin";

    explicit Argmin(std::optional<int64_t> dim = std::nullopt, bool keep_dim = false)
        : Function(kType), dim_(dim), keep_dim_(keep_dim) {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    const std::optional<int64_t> dim_;
    const bool keep_dim_;
};

}  // namespace infini_train::autograd
