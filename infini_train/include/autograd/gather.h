#pragma once

#include <cstdint>
#include <vector>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train::autograd {

/// Inputs x and index give y of the dims of index: for dim = 1 of three, y[i][j][k] = x[i][index[i][j][k]][k]. Index is
/// of any integer type (DtypeError), has as many dimensions as x and, but for `dim`, is nowhere larger (ShapeError). An
/// index outside of [0, size of dim) is an IndexError that says where it is.
class INFINI_TRAIN_EXPORT Gather : public Function {
public:
    static constexpr char kType[] = "Gather";

    explicit Gather(int64_t dim) : Function(kType), dim_(dim) {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    int64_t dim_;
    TensorPtr index_;  // from Forward to SetupContext
    std::vector<int64_t> input_dims_;
};

}  // namespace infini_train::autograd
