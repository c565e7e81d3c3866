#include "infini_train/include/nn/modules/convolution.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "infini_train/include/nn/init.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/nn/inputs.h"

namespace infini_train::nn {
namespace {

std::string FormatSize(const Size2d &size) {
    return fmt::format("({}, {})", size.height, size.width);
}

void CheckArguments(int64_t in_channels, int64_t out_channels, const Size2d &kernel, const autograd::Conv2dOptions &o) {
    if (in_channels < 1 || out_channels < 1 || o.groups < 1 || in_channels % o.groups != 0 ||
        out_channels % o.groups != 0) {
        Throw<ValueError>("Conv2d: expected channels that divide into the groups, got {} in, {} out and {} group{}",
                          in_channels, out_channels, o.groups, o.groups == 1 ? "" : "s");
    }
    const int64_t smallest = std::min({kernel.height, kernel.width, o.stride.height, o.stride.width, o.dilation.height,
                                       o.dilation.width, o.padding.height + 1, o.padding.width + 1});
    if (smallest < 1) {
        Throw<ValueError>(
            "Conv2d: expected kernel, stride and dilation of at least 1 and padding of at least 0, got kernel {}, "
            "stride {}, dilation {} and padding {}",
            FormatSize(kernel), FormatSize(o.stride), FormatSize(o.dilation), FormatSize(o.padding));
    }
}

}  // namespace

Conv2d::Conv2d(int64_t in_channels, int64_t out_channels, Size2d kernel_size, Size2d stride, Size2d padding,
               Size2d dilation, int64_t groups, bool bias, Device device, DataType dtype)
    : CloneableModule(kType), options_{stride, padding, dilation, groups} {
    CheckArguments(in_channels, out_channels, kernel_size, options_);
    const auto weight =
        Tensor::Empty({out_channels, in_channels / groups, kernel_size.height, kernel_size.width}, dtype, device);
    init::KaimingUniform(weight, std::sqrt(5.0));
    RegisterParameter(kParamWeightName, weight->RequiresGrad());
    if (!bias) {
        RegisterParameter(kParamBiasName, nullptr);
        return;
    }
    const double bound = 1.0 / std::sqrt(static_cast<double>(init::CalculateFans(weight).fan_in));
    const auto values = init::Uniform(Tensor::Empty({out_channels}, dtype, device), -bound, bound);
    RegisterParameter(kParamBiasName, values->RequiresGrad());
}

TensorList Conv2d::Forward(const TensorList &inputs) {
    CheckModuleInputs(*this, inputs, 1);
    const auto &weight = parameter(kParamWeightName);
    const auto &bias = parameter(kParamBiasName);
    const auto conv =
        std::make_shared<autograd::Conv2d>(options_.stride, options_.padding, options_.dilation, options_.groups);
    return bias != nullptr ? conv->Apply({inputs[0], weight, bias}) : conv->Apply({inputs[0], weight});
}

std::string Conv2d::ExtraRepr() const {
    const auto &dims = parameter(kParamWeightName)->Dims();
    std::string text = fmt::format("{}, {}, kernel_size={}, stride={}", dims[1] * options_.groups, dims[0],
                                   FormatSize({dims[2], dims[3]}), FormatSize(options_.stride));
    if (options_.padding != Size2d(0)) {
        text += ", padding=" + FormatSize(options_.padding);
    }
    if (options_.dilation != Size2d(1)) {
        text += ", dilation=" + FormatSize(options_.dilation);
    }
    if (options_.groups != 1) {
        text += fmt::format(", groups={}", options_.groups);
    }
    return has_parameter(kParamBiasName) ? text : text + ", bias=false";
}

}  // namespace infini_train::nn
