#pragma once

#include <cstdint>
#include <vector>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train::autograd {

/// A fully connected layer: input (..., in), weight (out, in) and, optionally, bias (out) give
/// input weight^T + bias, (..., out). All have the same floating-point type (DtypeError); shapes that don't match are a
/// ShapeError.
class INFINI_TRAIN_EXPORT Linear : public Function {
public:
    static constexpr char kType[] = "Linear";

    Linear() : Function(kType) {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    std::vector<int64_t> input_dims_, weight_dims_;
    bool has_bias_ = false;
};

}  // namespace infini_train::autograd
