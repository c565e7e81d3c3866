#include "infini_train/include/autograd/pooling.h"

#include <limits>
#include <memory>

#include "infini_train/src/autograd/matrix.h"
#include "infini_train/src/autograd/operands.h"
#include "infini_train/src/common/format.h"
#include "infini_train/src/kernels/pooling.h"
#include "infini_train/src/tensor/ref.h"
#include "infini_train/src/tensor/shape.h"

namespace infini_train::autograd {
namespace {

using Dims = std::vector<int64_t>;

void CheckOptions(const char *name, const Pool2dOptions &o) {
    if (o.kernel.height < 1 || o.kernel.width < 1 || o.stride.height < 1 || o.stride.width < 1 ||
        o.dilation.height < 1 || o.dilation.width < 1) {
        Throw<ValueError>(
            "{}: expected kernel, stride and dilation of at least 1, got kernel ({}, {}), stride ({}, {}) "
            "and dilation ({}, {})",
            name, o.kernel.height, o.kernel.width, o.stride.height, o.stride.width, o.dilation.height,
            o.dilation.width);
    }
    const Size2d window(o.dilation.height * (o.kernel.height - 1) + 1, o.dilation.width * (o.kernel.width - 1) + 1);
    if (o.padding.height < 0 || o.padding.width < 0 || o.padding.height > window.height / 2 ||
        o.padding.width > window.width / 2) {
        Throw<ValueError>("{}: expected a padding of at most half of the window ({}, {}), got ({}, {})", name,
                          window.height, window.width, o.padding.height, o.padding.width);
    }
}

// The number of windows along one axis; less than 1 if none fits.
int64_t NumWindows(int64_t in, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation, bool ceil_mode) {
    const int64_t room = in + 2 * padding - dilation * (kernel - 1) - 1;
    if (room < 0 && (!ceil_mode || room <= -stride)) {
        return 0;
    }
    int64_t windows = (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
    if (ceil_mode && (windows - 1) * stride >= in + padding) {
        --windows;
    }
    return windows;
}

kernels::Pool2dShape ShapeOf(const char *name, const Dims &input, const Pool2dOptions &o) {
    CheckOptions(name, o);
    if (input.size() != 3 && input.size() != 4) {
        Throw<ShapeError>("{}: expected an input (N, C, H, W) or (C, H, W), got {}", name, FormatDims(input));
    }
    const size_t at = input.size() - 2;
    const int64_t height =
        NumWindows(input[at], o.kernel.height, o.stride.height, o.padding.height, o.dilation.height, o.ceil_mode);
    const int64_t width =
        NumWindows(input[at + 1], o.kernel.width, o.stride.width, o.padding.width, o.dilation.width, o.ceil_mode);
    if (height < 1 || width < 1 || input[at] < 1 || input[at + 1] < 1) {
        Throw<ShapeError>("{}: a window of ({}, {}) doesn't fit into {}", name,
                          o.dilation.height * (o.kernel.height - 1) + 1, o.dilation.width * (o.kernel.width - 1) + 1,
                          FormatDims(input));
    }
    if (input[at] > std::numeric_limits<int32_t>::max() / input[at + 1]) {
        Throw<ShapeError>("{}: expected a plane of less than 2^31 elements, got {}", name, FormatDims(input));
    }
    return {
        .planes = at == 1 ? input[0] : input[0] * input[1],
        .in_height = input[at],
        .in_width = input[at + 1],
        .out_height = height,
        .out_width = width,
        .kernel_height = o.kernel.height,
        .kernel_width = o.kernel.width,
        .stride_height = o.stride.height,
        .stride_width = o.stride.width,
        .padding_height = o.padding.height,
        .padding_width = o.padding.width,
        .dilation_height = o.dilation.height,
        .dilation_width = o.dilation.width,
        .count_include_pad = o.count_include_pad,
    };
}

Dims OutputDims(const kernels::Pool2dShape &shape, const Dims &input) {
    Dims dims = input;
    dims[dims.size() - 2] = shape.out_height;
    dims[dims.size() - 1] = shape.out_width;
    return dims;
}

// The number of planes in front of the last two dimensions.
int64_t NumPlanes(const Dims &dims) {
    int64_t planes = 1;
    for (size_t i = 0; i + 2 < dims.size(); ++i) {
        planes *= dims[i];
    }
    return planes;
}

}  // namespace

TensorList MaxPool2d::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 1);
    CheckSameDtype(kType, inputs, false);
    const auto input = ContiguousCopy(inputs[0]);
    const auto shape = ShapeOf(kType, input->Dims(), options_);
    const Dims dims = OutputDims(shape, input->Dims());
    auto output = Tensor::Empty(dims, input->Dtype(), input->GetDevice());
    indices_ = Tensor::Empty(dims, DataType::kINT32, input->GetDevice());
    Dispatch<kernels::MaxPool2d>(output->GetDevice(), Ref(output), Ref(indices_), Ref(input), shape);
    return {output};
}

void MaxPool2d::SetupContext(const TensorList &inputs, const TensorList & /*outputs*/) {
    input_dims_ = inputs[0]->Dims();
    ctx_.SaveForBackward({indices_});
    indices_ = nullptr;
}

TensorList MaxPool2d::Backward(const TensorList &grad_outputs) {
    return std::make_shared<MaxPool2dBackward>(ctx_.GetSavedTensors()[0], input_dims_)->Apply({grad_outputs[0]});
}

TensorList MaxPool2dBackward::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 1);
    const auto grad = ContiguousCopy(inputs[0]);
    if (grad->Dims() != indices_->Dims()) {
        Throw<ShapeError>("MaxPool2dBackward: expected a grad_output {}, got {}", FormatDims(indices_->Dims()),
                          FormatDims(grad->Dims()));
    }
    auto output = Tensor::Empty(input_dims_, grad->Dtype(), grad->GetDevice());
    if (output->NumElements() > 0) {
        Dispatch<kernels::MaxPool2dBackward>(output->GetDevice(), Ref(output), Ref(grad), Ref(indices_),
                                             NumPlanes(input_dims_));
    }
    return {output};
}

TensorList MaxPool2dBackward::Backward(const TensorList &grad_outputs) {
    return std::make_shared<MaxPool2dGather>(indices_)->Apply({grad_outputs[0]});
}

TensorList MaxPool2dGather::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 1);
    const auto input = ContiguousCopy(inputs[0]);
    auto output = Tensor::EmptyLike(*indices_, input->Dtype());
    if (output->NumElements() > 0) {
        Dispatch<kernels::MaxPool2dGather>(output->GetDevice(), Ref(output), Ref(input), Ref(indices_),
                                           NumPlanes(input->Dims()));
    }
    return {output};
}

void MaxPool2dGather::SetupContext(const TensorList &inputs, const TensorList & /*outputs*/) {
    input_dims_ = inputs[0]->Dims();
}

TensorList MaxPool2dGather::Backward(const TensorList &grad_outputs) {
    return std::make_shared<MaxPool2dBackward>(indices_, input_dims_)->Apply({grad_outputs[0]});
}

TensorList AvgPool2d::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 1);
    CheckSameDtype(kType, inputs, false);
    const auto input = ContiguousCopy(inputs[0]);
    const auto shape = ShapeOf(kType, input->Dims(), options_);
    auto output = Tensor::Empty(OutputDims(shape, input->Dims()), input->Dtype(), input->GetDevice());
    Dispatch<kernels::AvgPool2d>(output->GetDevice(), Ref(output), Ref(input), shape);
    return {output};
}

void AvgPool2d::SetupContext(const TensorList &inputs, const TensorList & /*outputs*/) {
    input_dims_ = inputs[0]->Dims();
}

TensorList AvgPool2d::Backward(const TensorList &grad_outputs) {
    return std::make_shared<AvgPool2dBackward>(options_, input_dims_)->Apply({grad_outputs[0]});
}

TensorList AvgPool2dBackward::Forward(const TensorList &inputs) {
    CheckInputs(kType, inputs, 1);
    const auto grad = ContiguousCopy(inputs[0]);
    const auto shape = ShapeOf(kType, input_dims_, options_);
    if (const Dims expected = OutputDims(shape, input_dims_); grad->Dims() != expected) {
        Throw<ShapeError>("AvgPool2dBackward: expected a grad_output {} for {}, got {}", FormatDims(expected),
                          FormatDims(input_dims_), FormatDims(grad->Dims()));
    }
    auto output = Tensor::Empty(input_dims_, grad->Dtype(), grad->GetDevice());
    Dispatch<kernels::AvgPool2dBackward>(output->GetDevice(), Ref(output), Ref(grad), shape);
    return {output};
}

TensorList AvgPool2dBackward::Backward(const TensorList &grad_outputs) {
    return std::make_shared<AvgPool2d>(options_)->Apply({grad_outputs[0]});
}

}  // namespace infini_train::autograd
