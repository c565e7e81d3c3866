#pragma once

#include <cstdint>
#include <span>

#include "infini_train/include/datatype.h"
#include "infini_train/include/scalar.h"

#include "infini_train/src/kernels/tensor_ref.h"

namespace infini_train::cpu {

/// The innermost loop of an operator over `n` adjacent elements; in[k] is one element only for operands that the loop
/// takes as scalars. `params` are what else the operator has. The output may be one of the inputs.
using ElementwiseLoop = void (*)(const void *const *in, void *out, int64_t n, const void *params);

/// An operator in one type. `loops` differ in which of the last two operands are scalars: none, the last but one, the
/// last, both. Only the first one must be there. An operator with one operand has one loop.
struct ElementwiseOp {
    static constexpr int kMaxInputs = 3;

    ElementwiseLoop loops[4] = {};
    int num_inputs = 0;
    DataType in[kMaxInputs] = {};
    DataType out = DataType::kFLOAT32;
    int64_t grain = 16384;  ///< elements that are worth a thread
};

/// Runs `op` with operands of any type and strides, which broadcast to the output.
void RunElementwise(const ElementwiseOp &op, const TensorRef &output, std::span<const ConstTensorRef> inputs,
                    const void *params = nullptr);

/// The type in which a result of type `dtype` is computed: float32, float64, int64 or uint64.
DataType ComputeType(DataType dtype);

/// A number as a one-element operand of the type that the operator computes in.
class ScalarOperand {
public:
    ScalarOperand(Scalar value, DataType compute);
    ConstTensorRef Ref() const { return {bytes_, nullptr, nullptr, 0, dtype_, 1, true}; }

private:
    alignas(8) char bytes_[8];
    DataType dtype_;
};

}  // namespace infini_train::cpu
