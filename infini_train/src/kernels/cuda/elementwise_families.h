#pragma once

#include "infini_train/src/kernels/elementwise.h"

namespace infini_train::cuda {

// The kernels of the tags of the same names, which are spread over several files.
void UnaryKernel(TensorRef output, ConstTensorRef input, kernels::UnaryOp op);

void CompareKernel(TensorRef output, ConstTensorRef a, ConstTensorRef b, kernels::CompareOp op, DataType common);
void CompareScalarKernel(TensorRef output, ConstTensorRef a, Scalar b, kernels::CompareOp op, DataType common);
void ScalarCompareKernel(TensorRef output, Scalar a, ConstTensorRef b, kernels::CompareOp op, DataType common);
void ClampKernel(TensorRef output, ConstTensorRef input, Scalar low, Scalar high);
void ClampBackwardKernel(TensorRef grad_input, ConstTensorRef grad_output, ConstTensorRef input, Scalar low,
                         Scalar high);
void WhereKernel(TensorRef output, ConstTensorRef condition, ConstTensorRef a, ConstTensorRef b);

}  // namespace infini_train::cuda
