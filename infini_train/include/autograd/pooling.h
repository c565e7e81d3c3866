#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/autograd/size2d.h"
#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train::autograd {

/// How a pooling window moves over its input. `ceil_mode` rounds the number of windows up, so that the last one may
/// hang over the edge, as long as it begins inside of the input or its left padding.
struct Pool2dOptions {
    Size2d kernel = 1;
    Size2d stride = 1;
    Size2d padding = 0;
    Size2d dilation = 1;
    bool ceil_mode = false;
    bool count_include_pad = true;
};

/// The largest value in each window of an input (N, C, H, W), or (C, H, W); padding never wins. A NaN wins, and of
/// equal values the first one gets the gradient. Gives (N, C, oH, oW) or (C, oH, oW) with oH = (H + 2 padding -
/// dilation (kernel - 1) - 1) / stride + 1. Without a stride windows lie side by side.
///
/// Floating-point only (DtypeError). Throws ShapeError where no window fits, and ValueError for a kernel, stride or
/// dilation below 1 and a padding that is negative or larger than half of the window.
class INFINI_TRAIN_EXPORT MaxPool2d : public Function {
public:
    static constexpr char kType[] = "MaxPool2d";

    explicit MaxPool2d(Size2d kernel, std::optional<Size2d> stride = std::nullopt, Size2d padding = 0,
                       Size2d dilation = 1, bool ceil_mode = false)
        : Function(kType), options_{kernel, stride.value_or(kernel), padding, dilation, ceil_mode} {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

    const Pool2dOptions &options() const { return options_; }

private:
    const Pool2dOptions options_;
    std::vector<int64_t> input_dims_;
    TensorPtr indices_;  // where in its plane each maximum lies
};

/// The gradient of MaxPool2d: adds each element of grad_output (..., oH, oW) to the place in its plane of `input_dims`,
/// (..., H, W), that `indices`, int32 of grad_output's dims, names. Its own derivative picks from those places.
class INFINI_TRAIN_EXPORT MaxPool2dBackward : public Function {
public:
    static constexpr char kType[] = "MaxPool2dBackward";

    MaxPool2dBackward(TensorPtr indices, std::vector<int64_t> input_dims)
        : Function(kType), indices_(std::move(indices)), input_dims_(std::move(input_dims)) {}

    TensorList Forward(const TensorList &inputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    const TensorPtr indices_;
    const std::vector<int64_t> input_dims_;
};

/// The values of an input (..., H, W) at the places in its planes that `indices`, int32 (..., oH, oW), names: the
/// derivative of MaxPool2dBackward.
class INFINI_TRAIN_EXPORT MaxPool2dGather : public Function {
public:
    static constexpr char kType[] = "MaxPool2dGather";

    explicit MaxPool2dGather(TensorPtr indices) : Function(kType), indices_(std::move(indices)) {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    const TensorPtr indices_;
    std::vector<int64_t> input_dims_;
};

/// The mean of each window of an input (N, C, H, W), or (C, H, W); shapes, types and errors as MaxPool2d.
/// `count_include_pad`: padding counts as zeros; otherwise the mean is over what lies inside of the input.
class INFINI_TRAIN_EXPORT AvgPool2d : public Function {
public:
    static constexpr char kType[] = "AvgPool2d";

    explicit AvgPool2d(Size2d kernel, std::optional<Size2d> stride = std::nullopt, Size2d padding = 0,
                       bool ceil_mode = false, bool count_include_pad = true)
        : Function(kType), options_{kernel, stride.value_or(kernel), padding, 1, ceil_mode, count_include_pad} {}
    explicit AvgPool2d(const Pool2dOptions &options) : Function(kType), options_(options) {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

    const Pool2dOptions &options() const { return options_; }

private:
    const Pool2dOptions options_;
    std::vector<int64_t> input_dims_;
};

/// The gradient of AvgPool2d, from grad_output (..., oH, oW) to `input_dims`, (..., H, W).
class INFINI_TRAIN_EXPORT AvgPool2dBackward : public Function {
public:
    static constexpr char kType[] = "AvgPool2dBackward";

    AvgPool2dBackward(const Pool2dOptions &options, std::vector<int64_t> input_dims)
        : Function(kType), options_(options), input_dims_(std::move(input_dims)) {}

    TensorList Forward(const TensorList &inputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

    const Pool2dOptions &options() const { return options_; }

private:
    const Pool2dOptions options_;
    const std::vector<int64_t> input_dims_;
};

}  // namespace infini_train::autograd
