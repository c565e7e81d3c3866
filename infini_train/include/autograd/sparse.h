#pragma once

#include <cstdint>
#include <vector>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train::autograd {

/// Inputs indices (any dims, any integer type) and weight (V, D) give the rows of weight that the indices name,
/// (..., D). Throws DtypeError for other indices, ShapeError for another weight, IndexError for an index outside of
/// [0, V).
class INFINI_TRAIN_EXPORT Embedding : public Function {
public:
    static constexpr char kType[] = "Embedding";

    Embedding() : Function(kType) {}

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

private:
    TensorPtr index_;  // from Forward to SetupContext
    std::vector<int64_t> weight_dims_;
};

}  // namespace infini_train::autograd
