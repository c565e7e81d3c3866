#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/datatype.h"
#include "infini_train/include/scalar.h"

namespace infini_train::kernels {
enum class UnaryOp : int8_t;
enum class BinaryOp : int8_t;
enum class CompareOp : int8_t;
}  // namespace infini_train::kernels

namespace infini_train::autograd {

/// What the functions of one operand have in common: an output of the input's dims, contiguous.
class INFINI_TRAIN_EXPORT UnaryFunction : public Function {
public:
    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

protected:
    /// What InputGrad is given besides the gradient.
    enum class Keep : int8_t { kNothing, kInput, kOutput };
    /// The data type of the output for another input than a floating-point one.
    enum class Result : int8_t { kFloat32, kSame, kSameNoBool };

    UnaryFunction(const char *type, kernels::UnaryOp op, Keep keep, Result result = Result::kFloat32);

    virtual TensorPtr InputGrad(const TensorPtr &grad, const TensorPtr &kept) = 0;

private:
    const kernels::UnaryOp op_;
    const Keep keep_;
    const Result result_;
};

/// What the functions of two operands have in common: they broadcast, the output is contiguous, of the data type that
/// PyTorch's promotion gives (a tensor of no dimensions counts less than one with dimensions).
class INFINI_TRAIN_EXPORT BinaryFunction : public Function {
public:
    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

protected:
    BinaryFunction(const char *type, kernels::BinaryOp op);

    /// Saves for OperandGrad what it needs.
    virtual void Save(const TensorList & /*inputs*/, const TensorList & /*outputs*/) {}
    /// The gradient of operand `i`, 0 or 1, of the output's dims and data type.
    virtual TensorPtr OperandGrad(size_t i, const TensorPtr &grad) = 0;

private:
    // Where an operand's gradient has to go back to; no dims if they are the output's.
    struct Operand {
        bool is_broadcast = false;
        std::vector<int64_t> dims;
        DataType dtype = DataType::kFLOAT32;
    };

    const kernels::BinaryOp op_;
    Operand operands_[2];
};

/// What the functions of a tensor and a number have in common; the number doesn't widen the tensor's data type, but a
/// fraction makes integers float32.
class INFINI_TRAIN_EXPORT ScalarFunction : public Function {
public:
    TensorList Forward(const TensorList &inputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

protected:
    ScalarFunction(const char *type, kernels::BinaryOp op, Scalar other, bool scalar_first = false);

    virtual TensorPtr InputGrad(const TensorPtr &grad) = 0;

    const Scalar other_;

private:
    const kernels::BinaryOp op_;
    const bool scalar_first_;
};

/// What the comparisons have in common: operands that broadcast, or a tensor and a number; a bool output; no gradient.
class INFINI_TRAIN_EXPORT CompareFunction : public Function {
public:
    TensorList Forward(const TensorList &inputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

protected:
    /// Of two tensors; if `exchanged`, of the second with the first.
    CompareFunction(const char *type, kernels::CompareOp op, bool exchanged = false);
    CompareFunction(const char *type, kernels::CompareOp op, Scalar other, bool exchanged = false);

private:
    const kernels::CompareOp op_;
    const bool exchanged_;
    const bool has_scalar_;
    const Scalar other_;
};

}  // namespace infini_train::autograd
