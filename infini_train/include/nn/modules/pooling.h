#pragma once

#include <optional>
#include <string>

#include "infini_train/include/autograd/pooling.h"
#include "infini_train/include/autograd/size2d.h"
#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/nn/modules/module.h"

namespace infini_train::nn {

/// A size in height and width: `2` or `Size2d(2, 3)`.
using autograd::Size2d;

/// The largest value in each window of an input (N, C, H, W), or (C, H, W): (N, C, oH, oW) or (C, oH, oW) with oH =
/// (H + 2 padding - dilation (kernel_size - 1) - 1) / stride + 1, rounded down, or up with `ceil_mode`. Without a
/// stride the windows lie side by side. Wrong sizes are a ValueError of the first call.
class INFINI_TRAIN_EXPORT MaxPool2d : public CloneableModule<MaxPool2d> {
public:
    static constexpr char kType[] = "MaxPool2d";

    explicit MaxPool2d(Size2d kernel_size, std::optional<Size2d> stride = std::nullopt, Size2d padding = 0,
                       Size2d dilation = 1, bool ceil_mode = false);

    TensorList Forward(const TensorList &inputs) override;

protected:
    std::string ExtraRepr() const override;

private:
    const autograd::Pool2dOptions options_;
};

/// The mean of each window; shapes as MaxPool2d. `count_include_pad`: padding counts as zeros, otherwise the mean is
/// over what lies inside of the input.
class INFINI_TRAIN_EXPORT AvgPool2d : public CloneableModule<AvgPool2d> {
public:
    static constexpr char kType[] = "AvgPool2d";

    explicit AvgPool2d(Size2d kernel_size, std::optional<Size2d> stride = std::nullopt, Size2d padding = 0,
                       bool ceil_mode = false, bool count_include_pad = true);

    TensorList Forward(const TensorList &inputs) override;

protected:
    std::string ExtraRepr() const override;

private:
    const autograd::Pool2dOptions options_;
};

}  // namespace infini_train::nn
