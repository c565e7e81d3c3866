#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/datatype.h"
#include "infini_train/include/device.h"
#include "infini_train/include/nn/modules/module.h"

namespace infini_train::nn {

/// Layer normalisation (Ba et al., 2016) over the trailing dimensions: x (..., normalized_shape) gives (x - mean) /
/// sqrt(variance + eps) * weight + bias, of x's dims; the variance is that of the elements at hand (divided by n).
///
/// Parameters, both of `normalized_shape`: weight, ones at first, and bias, zeros at first; neither without
/// `elementwise_affine`, no bias without `bias`. Throws ValueError for an empty shape and sizes below 1.
class INFINI_TRAIN_EXPORT LayerNorm : public CloneableModule<LayerNorm> {
public:
    static constexpr char kType[] = "LayerNorm";
    static constexpr char kParamWeightName[] = "weight";
    static constexpr char kParamBiasName[] = "bias";

    explicit LayerNorm(std::vector<int64_t> normalized_shape, double eps = 1e-5, bool elementwise_affine = true,
                       bool bias = true, Device device = {}, DataType dtype = DataType::kFLOAT32);
    /// Over the last dimension alone.
    explicit LayerNorm(int64_t normalized_size, double eps = 1e-5, bool elementwise_affine = true, bool bias = true,
                       Device device = {}, DataType dtype = DataType::kFLOAT32)
        : LayerNorm(std::vector<int64_t>{normalized_size}, eps, elementwise_affine, bias, device, dtype) {}

    TensorList Forward(const TensorList &inputs) override;

    const std::vector<int64_t> &normalized_shape() const { return normalized_shape_; }
    double eps() const { return eps_; }

protected:
    std::string ExtraRepr() const override;

private:
    const std::vector<int64_t> normalized_shape_;
    const double eps_;
};

/// Normalisation by the root mean square over the last dimension (Zhang and Sennrich, arXiv:1910.07467): x (..., n)
/// gives x / sqrt(mean(x^2) + eps) * weight.
///
/// Parameter: weight (n), ones at first; none without `elementwise_affine`. Throws ValueError for a size below 1.
class INFINI_TRAIN_EXPORT RMSNorm : public CloneableModule<RMSNorm> {
public:
    static constexpr char kType[] = "RMSNorm";
    static constexpr char kParamWeightName[] = "weight";

    explicit RMSNorm(int64_t normalized_size, double eps = 1e-5, bool elementwise_affine = true, Device device = {},
                     DataType dtype = DataType::kFLOAT32);

    TensorList Forward(const TensorList &inputs) override;

    int64_t normalized_size() const { return normalized_size_; }
    double eps() const { return eps_; }

protected:
    std::string ExtraRepr() const override;

private:
    const int64_t normalized_size_;
    const double eps_;
};

}  // namespace infini_train::nn
