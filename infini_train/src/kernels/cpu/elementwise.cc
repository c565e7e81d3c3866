#include "infini_train/src/kernels/cpu/elementwise.h"

#include "infini_train/src/kernels/registry.h"

namespace infini_train::cpu {
namespace {

using kernels::BinaryOp;
using kernels::CompareOp;
using kernels::UnaryOp;

const ElementwiseOp &FindAnyBinary(BinaryOp op, DataType compute) {
    return op <= BinaryOp::kDiv ? *FindBinary(op, compute) : *FindDerivative(op, compute);
}

// Arithmetic in 32 bits wraps to the same as in 64.
DataType ArithmeticType(DataType dtype) {
    return dtype == DataType::kINT32 ? dtype : ComputeType(dtype);
}

void UnaryKernel(TensorRef output, ConstTensorRef input, UnaryOp op) {
    const DataType compute = ArithmeticType(output.dtype);
    const auto *loops = op < UnaryOp::kTanh ? FindUnary(op, compute) : FindActivation(op, compute);
    RunElementwise(*loops, output, {&input, 1});
}

void BinaryKernel(TensorRef output, ConstTensorRef a, ConstTensorRef b, BinaryOp op) {
    const ConstTensorRef inputs[] = {a, b};
    RunElementwise(FindAnyBinary(op, ArithmeticType(output.dtype)), output, inputs);
}

void BinaryScalarKernel(TensorRef output, ConstTensorRef a, Scalar b, BinaryOp op) {
    const DataType compute = ArithmeticType(output.dtype);
    const ScalarOperand scalar(b, compute);
    const ConstTensorRef inputs[] = {a, scalar.Ref()};
    RunElementwise(FindAnyBinary(op, compute), output, inputs);
}

void ScalarBinaryKernel(TensorRef output, Scalar a, ConstTensorRef b, BinaryOp op) {
    const DataType compute = ArithmeticType(output.dtype);
    const ScalarOperand scalar(a, compute);
    const ConstTensorRef inputs[] = {scalar.Ref(), b};
    RunElementwise(FindAnyBinary(op, compute), output, inputs);
}

void CompareKernel(TensorRef output, ConstTensorRef a, ConstTensorRef b, CompareOp op, DataType common) {
    const ConstTensorRef inputs[] = {a, b};
    RunElementwise(*FindCompare(op, ComputeType(common)), output, inputs);
}

void CompareScalarKernel(TensorRef output, ConstTensorRef a, Scalar b, CompareOp op, DataType common) {
    const DataType compute = ComputeType(common);
    const ScalarOperand scalar(b, compute);
    const ConstTensorRef inputs[] = {a, scalar.Ref()};
    RunElementwise(*FindCompare(op, compute), output, inputs);
}

void ScalarCompareKernel(TensorRef output, Scalar a, ConstTensorRef b, CompareOp op, DataType common) {
    const DataType compute = ComputeType(common);
    const ScalarOperand scalar(a, compute);
    const ConstTensorRef inputs[] = {scalar.Ref(), b};
    RunElementwise(*FindCompare(op, compute), output, inputs);
}

}  // namespace
}  // namespace infini_train::cpu

namespace infini_train::kernels {

void RegisterElementwiseCpu() {
    RegisterKernel<Unary>(DeviceType::kCPU, &cpu::UnaryKernel);
    RegisterKernel<Binary>(DeviceType::kCPU, &cpu::BinaryKernel);
    RegisterKernel<BinaryScalar>(DeviceType::kCPU, &cpu::BinaryScalarKernel);
    RegisterKernel<ScalarBinary>(DeviceType::kCPU, &cpu::ScalarBinaryKernel);
    RegisterKernel<Compare>(DeviceType::kCPU, &cpu::CompareKernel);
    RegisterKernel<CompareScalar>(DeviceType::kCPU, &cpu::CompareScalarKernel);
    RegisterKernel<ScalarCompare>(DeviceType::kCPU, &cpu::ScalarCompareKernel);
    RegisterKernel<Clamp>(DeviceType::kCPU, &cpu::ClampKernel);
    RegisterKernel<ClampBackward>(DeviceType::kCPU, &cpu::ClampBackwardKernel);
    RegisterKernel<Where>(DeviceType::kCPU, &cpu::WhereKernel);
}

}  // namespace infini_train::kernels
