#pragma once

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train::autograd {

/// The outer product: (n) and (m) give (n, m). Both have the same data type, floating-point or integer. Throws
/// ShapeError for anything but vectors, DtypeError for bool and for two types.
class INFINI_TRAIN_EXPORT Outer : public Function {
public:
    static constexpr char kType[] = "Outer";

    Outer() : Function(kType) {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;
};

}  // namespace infini_train::autograd
