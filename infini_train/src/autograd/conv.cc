#include "infini_train/include/autograd/conv.h"

#include <memory>

#include "infini_train/include/autograd/grad_mode.h"

#include "infini_train/src/autograd/matrix.h"
#include "infini_train/src/autograd/operands.h"
#include "infini_train/src/common/format.h"
#include "infini_train/src/kernels/conv.h"
#include "infini_train/src/tensor/ref.h"
#include "infini_train/src/tensor/shape.h"

namespace infini_train::autograd {
namespace {

using Dims = std::vector<int64_t>;

void CheckOptions(const char *name, const Conv2dOptions &o) {
    if (o.stride.height < 1 || o.stride.width < 1 || o.dilation.height < 1 || o.dilation.width < 1 || o.groups < 1 ||
        o.padding.height < 0 || o.padding.width < 0) {
        Throw<ValueError>(
            "{}: expected stride, dilation and groups of at least 1 and padding of at least 0, got stride "
            "({}, {}), dilation ({}, {}), {} groups and padding ({}, {})",
            name, o.stride.height, o.stride.width, o.dilation.height, o.dilation.width, o.groups, o.padding.height,
            o.padding.width);
    }
}

// Checks the shapes of input (N, C, H, W) or (C, H, W) and weight (O, C / groups, kH, kW).
kernels::Conv2dShape ShapeOf(const char *name, const Dims &input, const Dims &weight, const Conv2dOptions &o) {
    CheckOptions(name, o);
    if ((input.size() != 3 && input.size() != 4) || weight.size() != 4) {
        Throw<ShapeError>(
            "{}: expected an input (N, C, H, W) or (C, H, W) and a weight (O, C / groups, kH, kW), got {} "
            "and {}",
            name, FormatDims(input), FormatDims(weight));
    }
    const size_t at = input.size() - 3;
    const int64_t in_channels = input[at], out_channels = weight[0];
    if (in_channels != weight[1] * o.groups || out_channels % o.groups != 0) {
        Throw<ShapeError>(
            "{}: {} and {} don't match: {} input and {} output channels in {} group{} of {} input channels", name,
            FormatDims(input), FormatDims(weight), in_channels, out_channels, o.groups, o.groups == 1 ? "" : "s",
            weight[1]);
    }
    const int64_t height = input[at + 1] + 2 * o.padding.height - o.dilation.height * (weight[2] - 1) - 1;
    const int64_t width = input[at + 2] + 2 * o.padding.width - o.dilation.width * (weight[3] - 1) - 1;
    if (height < 0 || width < 0 || weight[2] < 1 || weight[3] < 1 || in_channels < 1 || out_channels < 1 ||
        input[at + 1] < 1 || input[at + 2] < 1) {
        Throw<ShapeError>("{}: {} and {} don't match: expected a kernel that fits into the padded input, and channels",
                          name, FormatDims(input), FormatDims(weight));
    }
    return {
        .batch = at == 0 ? 1 : input[0],
        .groups = o.groups,
        .in_channels = in_channels,
        .in_height = input[at + 1],
        .in_width = input[at + 2],
        .out_channels = out_channels,
        .out_height = height / o.stride.height + 1,
        .out_width = width / o.stride.width + 1,
        .kernel_height = weight[2],
        .kernel_width = weight[3],
        .stride_height = o.stride.height,
        .stride_width = o.stride.width,
        .padding_height = o.padding.height,
        .padding_width = o.padding.width,
        .dilation_height = o.dilation.height,
        .dilation_width = o.dilation.width,
    };
}

Dims OutputDims(const kernels::Conv2dShape &shape, const Dims &input) {
    if (input.size() == 3) {
        return {shape.out_channels, shape.out_height, shape.out_width};
    }
    return {shape.batch, shape.out_channels, shape.out_height, shape.out_width};
}

void CheckGradDims(const char *name, const kernels::Conv2dShape &shape, const Dims &input, const Dims &weight,
                   const Dims &grad) {
    if (const Dims expected = OutputDims(shape, input); grad != expected) {
        Throw<ShapeError>("{}: expected a grad_output {} for {} and {}, got {}", name, FormatDims(expected),
                          FormatDims(input), FormatDims(weight), FormatDims(grad));
    }
}

TensorPtr Convolve(const TensorPtr &x, const TensorPtr &weight, const Conv2dOptions &o) {
    return std::make_shared<Conv2d>(o.stride, o.padding, o.dilation, o.groups)->Apply({x, weight})[0];
}
TensorPtr GradInput(const TensorPtr &grad, const TensorPtr &weight, const Conv2dOptions &o, const Dims &input_dims) {
    return std::make_shared<Conv2dBackwardInput>(o, input_dims)->Apply({grad, weight})[0];
}
TensorPtr GradWeight(const TensorPtr &grad, const TensorPtr &x, const Conv2dOptions &o, const Dims &weight_dims) {
    return std::make_shared<Conv2dBackwardWeight>(o, weight_dims)->Apply({grad, x})[0];
}

TensorPtr GradBias(const TensorPtr &grad) {
    const int64_t first = grad->NumDims() - 3;
    if (GradMode::IsEnabled()) {
        return grad->Sum(first == 0 ? Dims{1, 2} : Dims{0, 2, 3}, false);
    }
    const Dims &dims = grad->Dims();
    return SumChannels(grad, first == 0 ? 1 : dims[0], dims[static_cast<size_t>(first)],
                       dims[first + 1] * dims[first + 2]);
}

}  // namespace

TensorList Conv2d::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 2, 3);
    CheckSameDtype(kType, inputs, false);
    const auto &input = inputs[0];
    const auto &weight = inputs[1];
    const auto shape = ShapeOf(kType, input->Dims(), weight->Dims(), options_);
    TensorPtr bias;
    if (inputs.size() > 2) {
        if (inputs[2]->Dims() != Dims{shape.out_channels}) {
            Throw<ShapeError>("Conv2d: expected a bias {} for a weight {}, got {}", FormatDims({{shape.out_channels}}),
                              FormatDims(weight->Dims()), FormatDims(inputs[2]->Dims()));
        }
        bias = ContiguousCopy(inputs[2]);
    }
    auto output = Tensor::Empty(OutputDims(shape, input->Dims()), input->Dtype(), input->GetDevice());
    const auto x = ContiguousCopy(input), w = ContiguousCopy(weight);
    Dispatch<kernels::Conv2dForward>(output->GetDevice(), Ref(output), Ref(x), Ref(w),
                                     bias == nullptr ? ConstTensorRef() : ConstTensorRef(Ref(bias)), shape);
    return {output};
}

void Conv2d::SetupContext(const TensorList &inputs, const TensorList & /*outputs*/) {
    input_dims_ = inputs[0]->Dims();
    weight_dims_ = inputs[1]->Dims();
    has_bias_ = inputs.size() > 2;
    ctx_.SaveForBackward(
        {ctx_.needs_input_grad(1) ? inputs[0] : nullptr, ctx_.needs_input_grad(0) ? inputs[1] : nullptr});
}

TensorList Conv2d::Backward(const TensorList &grad_outputs) {
    const TensorList saved = ctx_.GetSavedTensors();
    // One copy serves all three gradients where they have to be read as they lie in memory.
    const auto grad = grad_outputs[0]->Contiguous();
    TensorList grads(has_bias_ ? 3 : 2);
    if (ctx_.needs_input_grad(0)) {
        grads[0] = GradInput(grad, saved[1], options_, input_dims_);
    }
    if (ctx_.needs_input_grad(1)) {
        grads[1] = GradWeight(grad, saved[0], options_, weight_dims_);
    }
    if (has_bias_ && ctx_.needs_input_grad(2)) {
        grads[2] = GradBias(grad);
    }
    return grads;
}

TensorList Conv2dBackwardInput::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 2);
    CheckSameDtype(kType, inputs, false);
    const auto grad = ContiguousCopy(inputs[0]), weight = ContiguousCopy(inputs[1]);
    const auto shape = ShapeOf(kType, input_dims_, weight->Dims(), options_);
    CheckGradDims(kType, shape, input_dims_, weight->Dims(), grad->Dims());
    auto output = Tensor::Empty(input_dims_, grad->Dtype(), grad->GetDevice());
    Dispatch<kernels::Conv2dBackwardInput>(output->GetDevice(), Ref(output), Ref(grad), Ref(weight), shape);
    return {output};
}

void Conv2dBackwardInput::SetupContext(const TensorList &inputs, const TensorList & /*outputs*/) {
    weight_dims_ = inputs[1]->Dims();
    ctx_.SaveForBackward(
        {ctx_.needs_input_grad(1) ? inputs[0] : nullptr, ctx_.needs_input_grad(0) ? inputs[1] : nullptr});
}

TensorList Conv2dBackwardInput::Backward(const TensorList &grad_outputs) {
    const TensorList saved = ctx_.GetSavedTensors();
    const auto &grad = grad_outputs[0];  // (N, C, H, W), as the input
    return {ctx_.needs_input_grad(0) ? Convolve(grad, saved[1], options_) : nullptr,
            ctx_.needs_input_grad(1) ? GradWeight(saved[0], grad, options_, weight_dims_) : nullptr};
}

TensorList Conv2dBackwardWeight::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 2);
    CheckSameDtype(kType, inputs, false);
    const auto grad = ContiguousCopy(inputs[0]), input = ContiguousCopy(inputs[1]);
    const auto shape = ShapeOf(kType, input->Dims(), weight_dims_, options_);
    CheckGradDims(kType, shape, input->Dims(), weight_dims_, grad->Dims());
    auto output = Tensor::Empty(weight_dims_, grad->Dtype(), grad->GetDevice());
    Dispatch<kernels::Conv2dBackwardWeight>(output->GetDevice(), Ref(output), Ref(grad), Ref(input), shape);
    return {output};
}

void Conv2dBackwardWeight::SetupContext(const TensorList &inputs, const TensorList & /*outputs*/) {
    input_dims_ = inputs[1]->Dims();
    ctx_.SaveForBackward(
        {ctx_.needs_input_grad(1) ? inputs[0] : nullptr, ctx_.needs_input_grad(0) ? inputs[1] : nullptr});
}

TensorList Conv2dBackwardWeight::Backward(const TensorList &grad_outputs) {
    const TensorList saved = ctx_.GetSavedTensors();
    const auto &grad = grad_outputs[0];  // (O, C / groups, kH, kW), as the weight
    return {ctx_.needs_input_grad(0) ? Convolve(saved[1], grad, options_) : nullptr,
            ctx_.needs_input_grad(1) ? GradInput(saved[0], grad, options_, input_dims_) : nullptr};
}

}  // namespace infini_train::autograd
