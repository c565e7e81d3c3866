#include "infini_train/include/nn/modules/pooling.h"

#include <memory>

#include "infini_train/src/common/format.h"
#include "infini_train/src/nn/inputs.h"

namespace infini_train::nn {
namespace {

std::string FormatSize(const Size2d &size) {
    return size.height == size.width ? fmt::format("{}", size.height)
                                     : fmt::format("({}, {})", size.height, size.width);
}

std::string FormatWindow(const autograd::Pool2dOptions &o) {
    return fmt::format("kernel_size={}, stride={}, padding={}", FormatSize(o.kernel), FormatSize(o.stride),
                       FormatSize(o.padding));
}

}  // namespace

MaxPool2d::MaxPool2d(Size2d kernel_size, std::optional<Size2d> stride, Size2d padding, Size2d dilation, bool ceil_mode)
    : CloneableModule(kType), options_{kernel_size, stride.value_or(kernel_size), padding, dilation,
                                       ceil_mode,   /*count_include_pad=*/true} {}

TensorList MaxPool2d::Forward(const TensorList &inputs) {
    CheckModuleInputs(*this, inputs, 1);
    return std::make_shared<autograd::MaxPool2d>(options_.kernel, options_.stride, options_.padding, options_.dilation,
                                                 options_.ceil_mode)
        ->Apply(inputs);
}

std::string MaxPool2d::ExtraRepr() const {
    return fmt::format("{}, dilation={}, ceil_mode={}", FormatWindow(options_), FormatSize(options_.dilation),
                       options_.ceil_mode);
}

AvgPool2d::AvgPool2d(Size2d kernel_size, std::optional<Size2d> stride, Size2d padding, bool ceil_mode,
                     bool count_include_pad)
    : CloneableModule(kType), options_{kernel_size, stride.value_or(kernel_size),
                                       padding,     /*dilation=*/1,
                                       ceil_mode,   count_include_pad} {}

TensorList AvgPool2d::Forward(const TensorList &inputs) {
    CheckModuleInputs(*this, inputs, 1);
    return std::make_shared<autograd::AvgPool2d>(options_)->Apply(inputs);
}

std::string AvgPool2d::ExtraRepr() const {
    return FormatWindow(options_);
}

}  // namespace infini_train::nn
