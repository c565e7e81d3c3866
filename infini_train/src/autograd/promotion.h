#pragma once

#include "infini_train/include/datatype.h"
#include "infini_train/include/scalar.h"
#include "infini_train/include/tensor.h"

namespace infini_train::autograd {

/// The data type of an operator's result, as in PyTorch: PromoteTypes, but a tensor of no dimensions doesn't widen the
/// type of one with dimensions unless it is of a higher kind (bool < integer < float), and a number widens neither.
/// Throws DtypeError.
DataType ResultType(const Tensor &a, const Tensor &b);
DataType ResultType(const Tensor &a, const Scalar &b);

/// float32 for integers and bool, otherwise the type itself.
inline DataType FloatType(DataType dtype) {
    return IsFloatingPoint(dtype) ? dtype : DataType::kFLOAT32;
}

}  // namespace infini_train::autograd
