#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "infini_train/include/autograd/comparison.h"
#include "infini_train/include/autograd/elementwise_base.h"
#include "infini_train/include/autograd/function.h"
#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/datatype.h"
#include "infini_train/include/scalar.h"

namespace infini_train::autograd {

// ---- One operand: any dims. What isn't said to keep integers makes them float32. ----

/// -x. Keeps integers; bool is a DtypeError.
class INFINI_TRAIN_EXPORT Neg : public UnaryFunction {
public:
    static constexpr char kType[] = "Neg";
    Neg();

protected:
    TensorPtr InputGrad(const TensorPtr &grad, const TensorPtr &kept) override;
};

/// 1 / x
class INFINI_TRAIN_EXPORT Reciprocal : public UnaryFunction {
public:
    static constexpr char kType[] = "Reciprocal";
    Reciprocal();

protected:
    TensorPtr InputGrad(const TensorPtr &grad, const TensorPtr &kept) override;
};

/// sin(x), in radians.
class INFINI_TRAIN_EXPORT Sin : public UnaryFunction {
public:
    static constexpr char kType[] = "Sin";
    Sin();

protected:
    TensorPtr InputGrad(const TensorPtr &grad, const TensorPtr &kept) override;
};

/// cos(x), in radians.
class INFINI_TRAIN_EXPORT Cos : public UnaryFunction {
public:
    static constexpr char kType[] = "Cos";
    Cos();

protected:
    TensorPtr InputGrad(const TensorPtr &grad, const TensorPtr &kept) override;
};

/// tanh(x)
class INFINI_TRAIN_EXPORT Tanh : public UnaryFunction {
public:
    static constexpr char kType[] = "Tanh";
    Tanh();

protected:
    TensorPtr InputGrad(const TensorPtr &grad, const TensorPtr &kept) override;
};

/// 1 / sqrt(x)
class INFINI_TRAIN_EXPORT Rsqrt : public UnaryFunction {
public:
    static constexpr char kType[] = "Rsqrt";
    Rsqrt();

protected:
    TensorPtr InputGrad(const TensorPtr &grad, const TensorPtr &kept) override;
};

/// exp(x)
class INFINI_TRAIN_EXPORT Exp : public UnaryFunction {
public:
    static constexpr char kType[] = "Exp";
    Exp();

protected:
    TensorPtr InputGrad(const TensorPtr &grad, const TensorPtr &kept) override;
};

/// The natural logarithm.
class INFINI_TRAIN_EXPORT Log : public UnaryFunction {
public:
    static constexpr char kType[] = "Log";
    Log();

protected:
    TensorPtr InputGrad(const TensorPtr &grad, const TensorPtr &kept) override;
};

/// sqrt(x); its derivative at 0 is infinite.
class INFINI_TRAIN_EXPORT Sqrt : public UnaryFunction {
public:
    static constexpr char kType[] = "Sqrt";
    Sqrt();

protected:
    TensorPtr InputGrad(const TensorPtr &grad, const TensorPtr &kept) override;
};

/// x^2. Keeps integers.
class INFINI_TRAIN_EXPORT Square : public UnaryFunction {
public:
    static constexpr char kType[] = "Square";
    Square();

protected:
    TensorPtr InputGrad(const TensorPtr &grad, const TensorPtr &kept) override;
};

/// |x|. Keeps integers; its derivative at 0 is 0.
class INFINI_TRAIN_EXPORT Abs : public UnaryFunction {
public:
    static constexpr char kType[] = "Abs";
    Abs();

protected:
    TensorPtr InputGrad(const TensorPtr &grad, const TensorPtr &kept) override;
};

/// x^exponent. Integers with an integer exponent stay integers: the exponent must be >= 0 then (ValueError).
class INFINI_TRAIN_EXPORT Pow : public Function {
public:
    static constexpr char kType[] = "Pow";
    explicit Pow(Scalar exponent) : Function(kType), exponent_(exponent) {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    const Scalar exponent_;
};

/// min(max(x, min), max); either limit may be absent, both is a ValueError. The gradient passes at the limits too.
class INFINI_TRAIN_EXPORT Clamp : public Function {
public:
    static constexpr char kType[] = "Clamp";
    explicit Clamp(std::optional<Scalar> min, std::optional<Scalar> max = std::nullopt);

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    const std::optional<Scalar> min_;
    const std::optional<Scalar> max_;
};

// ---- Two operands that broadcast ----

/// a + b; of bools, their "or".
class INFINI_TRAIN_EXPORT Add : public BinaryFunction {
public:
    static constexpr char kType[] = "Add";
    Add();

protected:
    TensorPtr OperandGrad(size_t i, const TensorPtr &grad) override;
};

/// a - b; two bools are a DtypeError.
class INFINI_TRAIN_EXPORT Sub : public BinaryFunction {
public:
    static constexpr char kType[] = "Sub";
    Sub();

protected:
    TensorPtr OperandGrad(size_t i, const TensorPtr &grad) override;
};

/// a b
class INFINI_TRAIN_EXPORT Mul : public BinaryFunction {
public:
    static constexpr char kType[] = "Mul";
    Mul();

protected:
    void Save(const TensorList &inputs, const TensorList &outputs) override;
    TensorPtr OperandGrad(size_t i, const TensorPtr &grad) override;
};

/// a / b; integers are divided as float32.
class INFINI_TRAIN_EXPORT Div : public BinaryFunction {
public:
    static constexpr char kType[] = "Div";
    Div();

protected:
    void Save(const TensorList &inputs, const TensorList &outputs) override;
    TensorPtr OperandGrad(size_t i, const TensorPtr &grad) override;
};

/// The larger; a NaN in either wins, equal operands share the gradient.
class INFINI_TRAIN_EXPORT Maximum : public BinaryFunction {
public:
    static constexpr char kType[] = "Maximum";
    Maximum();

protected:
    void Save(const TensorList &inputs, const TensorList &outputs) override;
    TensorPtr OperandGrad(size_t i, const TensorPtr &grad) override;
};

/// The smaller; a NaN in either wins, equal operands share the gradient.
class INFINI_TRAIN_EXPORT Minimum : public BinaryFunction {
public:
    static constexpr char kType[] = "Minimum";
    Minimum();

protected:
    void Save(const TensorList &inputs, const TensorList &outputs) override;
    TensorPtr OperandGrad(size_t i, const TensorPtr &grad) override;
};

// ---- A tensor x and a number s ----

/// x + s
class INFINI_TRAIN_EXPORT AddScalar : public ScalarFunction {
public:
    static constexpr char kType[] = "AddScalar";
    explicit AddScalar(Scalar other);

protected:
    TensorPtr InputGrad(const TensorPtr &grad) override;
};

/// x - s
class INFINI_TRAIN_EXPORT SubScalar : public ScalarFunction {
public:
    static constexpr char kType[] = "SubScalar";
    explicit SubScalar(Scalar other);

protected:
    TensorPtr InputGrad(const TensorPtr &grad) override;
};

/// s - x
class INFINI_TRAIN_EXPORT RSubScalar : public ScalarFunction {
public:
    static constexpr char kType[] = "RSubScalar";
    explicit RSubScalar(Scalar other);

protected:
    TensorPtr InputGrad(const TensorPtr &grad) override;
};

/// x s
class INFINI_TRAIN_EXPORT MulScalar : public ScalarFunction {
public:
    static constexpr char kType[] = "MulScalar";
    explicit MulScalar(Scalar other);

protected:
    TensorPtr InputGrad(const TensorPtr &grad) override;
};

/// x / s; integers are divided as float32.
class INFINI_TRAIN_EXPORT DivScalar : public ScalarFunction {
public:
    static constexpr char kType[] = "DivScalar";
    explicit DivScalar(Scalar other);

protected:
    TensorPtr InputGrad(const TensorPtr &grad) override;
};

/// Inputs (condition, a, b), which broadcast: a where `condition` is true, else b. The condition is bool (DtypeError).
class INFINI_TRAIN_EXPORT Where : public Function {
public:
    static constexpr char kType[] = "Where";
    Where() : Function(kType) {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    std::vector<int64_t> dims_[2];
    DataType dtypes_[2];
};

}  // namespace infini_train::autograd
