#pragma once

#include "infini_train/include/autograd/elementwise_base.h"
#include "infini_train/include/common/export.h"
#include "infini_train/include/scalar.h"

namespace infini_train::autograd {

// Comparisons of two tensors, which broadcast, and of a tensor with a number, as the data type that both promote to.
// They give bool and have no gradient. A NaN is unequal to everything, and neither less nor greater.

/// a == b
class INFINI_TRAIN_EXPORT Equals : public CompareFunction {
public:
    static constexpr char kType[] = "Equals";
    Equals();
};
/// a == other
class INFINI_TRAIN_EXPORT EqualsScalar : public CompareFunction {
public:
    static constexpr char kType[] = "EqualsScalar";
    explicit EqualsScalar(Scalar other);
};

/// a != b
class INFINI_TRAIN_EXPORT NotEquals : public CompareFunction {
public:
    static constexpr char kType[] = "NotEquals";
    NotEquals();
};
/// a != other
class INFINI_TRAIN_EXPORT NotEqualsScalar : public CompareFunction {
public:
    static constexpr char kType[] = "NotEqualsScalar";
    explicit NotEqualsScalar(Scalar other);
};

/// a < b
class INFINI_TRAIN_EXPORT Lt : public CompareFunction {
public:
    static constexpr char kType[] = "Lt";
    Lt();
};
/// a < other
class INFINI_TRAIN_EXPORT LtScalar : public CompareFunction {
public:
    static constexpr char kType[] = "LtScalar";
    explicit LtScalar(Scalar other);
};

/// a <= b
class INFINI_TRAIN_EXPORT Le : public CompareFunction {
public:
    static constexpr char kType[] = "Le";
    Le();
};
/// a <= other
class INFINI_TRAIN_EXPORT LeScalar : public CompareFunction {
public:
    static constexpr char kType[] = "LeScalar";
    explicit LeScalar(Scalar other);
};

/// a > b
class INFINI_TRAIN_EXPORT Gt : public CompareFunction {
public:
    static constexpr char kType[] = "Gt";
    Gt();
};
/// a > other
class INFINI_TRAIN_EXPORT GtScalar : public CompareFunction {
public:
    static constexpr char kType[] = "GtScalar";
    explicit GtScalar(Scalar other);
};

/// a >= b
class INFINI_TRAIN_EXPORT Ge : public CompareFunction {
public:
    static constexpr char kType[] = "Ge";
    Ge();
};
/// a >= other
class INFINI_TRAIN_EXPORT GeScalar : public CompareFunction {
public:
    static constexpr char kType[] = "GeScalar";
    explicit GeScalar(Scalar other);
};

/// Whether neither is 0.
class INFINI_TRAIN_EXPORT And : public CompareFunction {
public:
    static constexpr char kType[] = "And";
    And();
};
/// a && other
class INFINI_TRAIN_EXPORT AndScalar : public CompareFunction {
public:
    static constexpr char kType[] = "AndScalar";
    explicit AndScalar(Scalar other);
};

/// Whether not both are 0.
class INFINI_TRAIN_EXPORT Or : public CompareFunction {
public:
    static constexpr char kType[] = "Or";
    Or();
};
/// a || other
class INFINI_TRAIN_EXPORT OrScalar : public CompareFunction {
public:
    static constexpr char kType[] = "OrScalar";
    explicit OrScalar(Scalar other);
};

}  // namespace infini_train::autograd
