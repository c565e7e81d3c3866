#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train::autograd {

/// The reverse of Gather: inputs values and index, of equal dims, give y of `output_dims`, zeros to which every value
/// is added at its index: for dim = 1 of three, y[i][index[i][j][k]][k] += values[i][j][k], in the order of j. Index is
/// of any integer type (DtypeError) and, but for `dim`, nowhere larger than the output (ShapeError). An index outside
/// of [0, size of dim) is an IndexError that says where it is. 16-bit floats are summed in float32.
class INFINI_TRAIN_EXPORT Scatter : public Function {
public:
    static constexpr char kType[] = "Scatter";

    explicit Scatter(std::vector<int64_t> output_dims, int64_t dim = -1)
        : Function(kType), output_dims_(std::move(output_dims)), dim_(dim) {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    const std::vector<int64_t> output_dims_;
    int64_t dim_;
    TensorPtr index_;  // from Forward to SetupContext
};

}  // namespace infini_train::autograd
