#pragma once

#include <cstdint>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train::autograd {

/// e^x over the sum of e^x along one dimension; safe for large x. -inf gives 0; a slice of nothing but -inf, or with a
/// NaN or +inf, gives NaN. DtypeError unless the input is floating-point, IndexError for a dimension that isn't there.
class INFINI_TRAIN_EXPORT Softmax : public Function {
public:
    static constexpr char kType[] = "Softmax";

    explicit Softmax(int64_t dim = -1) : Function(kType), dim_(dim) {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    const int64_t dim_;
};

/// The logarithm of Softmax, computed without its rounding.
class INFINI_TRAIN_EXPORT LogSoftmax : public Function {
public:
    static constexpr char kType[] = "LogSoftmax";

    explicit LogSoftmax(int64_t dim = -1) : Function(kType), dim_(dim) {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    const int64_t dim_;
};

}  // namespace infini_train::autograd
