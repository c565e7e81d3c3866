#pragma once

#include "infini_train/src/kernels/cpu/elementwise_driver.h"
#include "infini_train/src/kernels/elementwise.h"

namespace infini_train::cpu {

/// The loops of an operator in the type `compute` (float32, float64, int64 or uint64, and int32 for FindUnary and
/// FindBinary), for this machine's best instruction set. Null where the operator doesn't take that type.
const ElementwiseOp *FindUnary(kernels::UnaryOp op, DataType compute);
const ElementwiseOp *FindActivation(kernels::UnaryOp op, DataType compute);
const ElementwiseOp *FindBinary(kernels::BinaryOp op, DataType compute);
const ElementwiseOp *FindDerivative(kernels::BinaryOp op, DataType compute);
const ElementwiseOp *FindCompare(kernels::CompareOp op, DataType compute);

/// The kernels of the tags of the same names.
void ClampKernel(TensorRef output, ConstTensorRef input, Scalar low, Scalar high);
void ClampBackwardKernel(TensorRef grad_input, ConstTensorRef grad_output, ConstTensorRef input, Scalar low,
                         Scalar high);
void WhereKernel(TensorRef output, ConstTensorRef condition, ConstTensorRef a, ConstTensorRef b);

}  // namespace infini_train::cpu
