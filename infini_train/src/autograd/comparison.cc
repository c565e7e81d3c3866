#include "infini_train/include/autograd/comparison.h"

#include "infini_train/include/tensor.h"

#include "infini_train/src/kernels/elementwise.h"

namespace infini_train {
namespace autograd {

using kernels::CompareOp;

Equals::Equals() : CompareFunction(kType, CompareOp::kEquals) {}
NotEquals::NotEquals() : CompareFunction(kType, CompareOp::kNotEquals) {}
Lt::Lt() : CompareFunction(kType, CompareOp::kLt) {}
Le::Le() : CompareFunction(kType, CompareOp::kLe) {}
// a > b is b < a.
Gt::Gt() : CompareFunction(kType, CompareOp::kLt, /*exchanged=*/true) {}
Ge::Ge() : CompareFunction(kType, CompareOp::kLe, /*exchanged=*/true) {}
And::And() : CompareFunction(kType, CompareOp::kAnd) {}
Or::Or() : CompareFunction(kType, CompareOp::kOr) {}

EqualsScalar::EqualsScalar(Scalar other) : CompareFunction(kType, CompareOp::kEquals, other) {}
NotEqualsScalar::NotEqualsScalar(Scalar other) : CompareFunction(kType, CompareOp::kNotEquals, other) {}
LtScalar::LtScalar(Scalar other) : CompareFunction(kType, CompareOp::kLt, other) {}
LeScalar::LeScalar(Scalar other) : CompareFunction(kType, CompareOp::kLe, other) {}
GtScalar::GtScalar(Scalar other) : CompareFunction(kType, CompareOp::kLt, other, /*exchanged=*/true) {}
GeScalar::GeScalar(Scalar other) : CompareFunction(kType, CompareOp::kLe, other, /*exchanged=*/true) {}
AndScalar::AndScalar(Scalar other) : CompareFunction(kType, CompareOp::kAnd, other) {}
OrScalar::OrScalar(Scalar other) : CompareFunction(kType, CompareOp::kOr, other) {}

}  // namespace autograd

TensorPtr Tensor::Equals(const TensorPtr &other) {
    return std::make_shared<autograd::Equals>()->Apply({Self(), other})[0];
}
TensorPtr Tensor::Equals(Scalar other) {
    return std::make_shared<autograd::EqualsScalar>(other)->Apply({Self()})[0];
}
TensorPtr Tensor::NotEquals(const TensorPtr &other) {
    return std::make_shared<autograd::NotEquals>()->Apply({Self(), other})[0];
}
TensorPtr Tensor::NotEquals(Scalar other) {
    return std::make_shared<autograd::NotEqualsScalar>(other)->Apply({Self()})[0];
}
TensorPtr Tensor::Lt(const TensorPtr &other) {
    return std::make_shared<autograd::Lt>()->Apply({Self(), other})[0];
}
TensorPtr Tensor::Lt(Scalar other) {
    return std::make_shared<autograd::LtScalar>(other)->Apply({Self()})[0];
}
TensorPtr Tensor::Le(const TensorPtr &other) {
    return std::make_shared<autograd::Le>()->Apply({Self(), other})[0];
}
TensorPtr Tensor::Le(Scalar other) {
    return std::make_shared<autograd::LeScalar>(other)->Apply({Self()})[0];
}
TensorPtr Tensor::Gt(const TensorPtr &other) {
    return std::make_shared<autograd::Gt>()->Apply({Self(), other})[0];
}
TensorPtr Tensor::Gt(Scalar other) {
    return std::make_shared<autograd::GtScalar>(other)->Apply({Self()})[0];
}
TensorPtr Tensor::Ge(const TensorPtr &other) {
    return std::make_shared<autograd::Ge>()->Apply({Self(), other})[0];
}
TensorPtr Tensor::Ge(Scalar other) {
    return std::make_shared<autograd::GeScalar>(other)->Apply({Self()})[0];
}
TensorPtr Tensor::And(const TensorPtr &other) {
    return std::make_shared<autograd::And>()->Apply({Self(), other})[0];
}
TensorPtr Tensor::Or(const TensorPtr &other) {
    return std::make_shared<autograd::Or>()->Apply({Self(), other})[0];
}

}  // namespace infini_train
