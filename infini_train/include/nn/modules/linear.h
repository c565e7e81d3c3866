#pragma once

#include <cstdint>
#include <string>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/datatype.h"
#include "infini_train/include/device.h"
#include "infini_train/include/nn/modules/module.h"

namespace infini_train::nn {

/// A fully connected layer: (..., in) gives x weight^T + bias, (..., out).
///
/// Parameters: weight (out, in) and, unless `bias` is false, bias (out), both uniform in +-1 / sqrt(in) at first, drawn
/// from DefaultGenerator(). Throws ValueError for sizes below 1.
class INFINI_TRAIN_EXPORT Linear : public CloneableModule<Linear> {
public:
    static constexpr char kType[] = "Linear";
    static constexpr char kParamWeightName[] = "weight";
    static constexpr char kParamBiasName[] = "bias";

    Linear(int64_t in_features, int64_t out_features, bool bias = true, Device device = {},
           DataType dtype = DataType::kFLOAT32);
    /// Over a weight (out, in) and a bias (out), or null, that exist, as they are: to share them with another module,
    /// or to fill them in another way. Throws ValueError for no weight, ShapeError for dims that don't fit.
    explicit Linear(const TensorPtr &weight, const TensorPtr &bias = nullptr);

    TensorList Forward(const TensorList &inputs) override;

    int64_t in_features() const;
    int64_t out_features() const;

protected:
    std::string ExtraRepr() const override;
};

}  // namespace infini_train::nn
