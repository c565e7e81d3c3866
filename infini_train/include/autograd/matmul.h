#pragma once

#include <cstdint>
#include <vector>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train::autograd {

/// The matrix product of two tensors, by PyTorch's rules:
///
///     (k) x (k) -> ()                         (..., m, k) x (k) -> (..., m)
///     (m, k) x (k, n) -> (m, n)               (k) x (..., k, n) -> (..., n)
///     (..., m, k) x (..., k, n) -> (..., m, n), the dimensions in front broadcast
///
/// Both have the same data type, floating-point or integer (which wraps and has no gradient). Throws ShapeError where
/// the shapes don't match and for tensors without dimensions, DtypeError for bool and for two types.
class INFINI_TRAIN_EXPORT Matmul : public Function {
public:
    static constexpr char kType[] = "Matmul";

    Matmul() : Function(kType) {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    std::vector<int64_t> a_dims_, b_dims_;
};

}  // namespace infini_train::autograd
