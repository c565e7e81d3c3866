#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/autograd/size2d.h"
#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train::autograd {

/// How the kernel of a convolution moves over its input: `stride` pixels at a time, over `padding` zeros on each side,
/// `dilation` pixels between its taps, the channels split into `groups` that don't see each other.
struct Conv2dOptions {
    Size2d stride = 1;
    Size2d padding = 0;
    Size2d dilation = 1;
    int64_t groups = 1;
};

/// 2-D convolution (cross-correlation, as in every deep-learning framework) of an input (N, C, H, W), or (C, H, W),
/// with a weight (O, C / groups, kH, kW) and, optionally, a bias (O). Gives (N, O, oH, oW) or (O, oH, oW), where oH =
/// (H + 2 padding - dilation (kH - 1) - 1) / stride + 1, rounded down.
///
/// All have the same floating-point type (DtypeError). Throws ShapeError where the shapes don't match or the kernel is
/// larger than the padded input, and ValueError for a stride, dilation or group count below 1 or a negative padding.
class INFINI_TRAIN_EXPORT Conv2d : public Function {
public:
    static constexpr char kType[] = "Conv2d";

    explicit Conv2d(Size2d stride = 1, Size2d padding = 0, Size2d dilation = 1, int64_t groups = 1)
        : Function(kType), options_{stride, padding, dilation, groups} {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    const Conv2dOptions options_;
    std::vector<int64_t> input_dims_, weight_dims_;
    bool has_bias_ = false;
};

/// The gradient of a convolution in its input, which is the transposed convolution: from grad_output (N, O, oH, oW) and
/// weight (O, C / groups, kH, kW) to `input_dims`, (N, C, H, W). With or without N, as Conv2d.
class INFINI_TRAIN_EXPORT Conv2dBackwardInput : public Function {
public:
    static constexpr char kType[] = "Conv2dBackwardInput";

    Conv2dBackwardInput(const Conv2dOptions &options, std::vector<int64_t> input_dims)
        : Function(kType), options_(options), input_dims_(std::move(input_dims)) {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    const Conv2dOptions options_;
    const std::vector<int64_t> input_dims_;
    std::vector<int64_t> weight_dims_;
};

/// The gradient of a convolution in its weight: from grad_output (N, O, oH, oW) and input (N, C, H, W) to
/// `weight_dims`, (O, C / groups, kH, kW). With or without N, as Conv2d.
class INFINI_TRAIN_EXPORT Conv2dBackwardWeight : public Function {
public:
    static constexpr char kType[] = "Conv2dBackwardWeight";

    Conv2dBackwardWeight(const Conv2dOptions &options, std::vector<int64_t> weight_dims)
        : Function(kType), options_(options), weight_dims_(std::move(weight_dims)) {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    const Conv2dOptions options_;
    const std::vector<int64_t> weight_dims_;
    std::vector<int64_t> input_dims_;
};

}  // namespace infini_train::autograd
