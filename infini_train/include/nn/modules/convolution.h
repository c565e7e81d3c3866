#pragma once

#include <cstdint>
#include <string>

#include "infini_train/include/autograd/conv.h"
#include "infini_train/include/autograd/size2d.h"
#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/datatype.h"
#include "infini_train/include/device.h"
#include "infini_train/include/nn/modules/module.h"

namespace infini_train::nn {

/// A size in height and width: `3` or `Size2d(3, 5)`.
using autograd::Size2d;

/// 2-D convolution: (N, in, H, W), or (in, H, W), gives (N, out, oH, oW) or (out, oH, oW) with oH = (H + 2 padding -
/// dilation (kernel - 1) - 1) / stride + 1, rounded down. The channels are split into `groups` that don't see each
/// other.
///
/// Parameters: weight (out, in / groups, kH, kW) and, unless `bias` is false, bias (out), both uniform in
/// +-1 / sqrt(in / groups * kH * kW) at first, drawn from DefaultGenerator(). Throws ValueError for channels that don't
/// divide into the groups and for sizes below 1.
class INFINI_TRAIN_EXPORT Conv2d : public CloneableModule<Conv2d> {
public:
    static constexpr char kType[] = "Conv2d";
    static constexpr char kParamWeightName[] = "weight";
    static constexpr char kParamBiasName[] = "bias";

    Conv2d(int64_t in_channels, int64_t out_channels, Size2d kernel_size, Size2d stride = 1, Size2d padding = 0,
           Size2d dilation = 1, int64_t groups = 1, bool bias = true, Device device = {},
           DataType dtype = DataType::kFLOAT32);

    TensorList Forward(const TensorList &inputs) override;

    const autograd::Conv2dOptions &options() const { return options_; }

protected:
    std::string ExtraRepr() const override;

private:
    const autograd::Conv2dOptions options_;
};

}  // namespace infini_train::nn
