#pragma once

#include <string>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/nn/modules/module.h"

namespace infini_train::nn {

/// In training each element becomes 0 with probability `p` and what is kept is multiplied by 1 / (1 - p), so that the
/// expected value stays (Srivastava et al., 2014); in evaluation the input itself. Draws from DefaultGenerator().
/// Throws ValueError for a probability outside of [0, 1].
class INFINI_TRAIN_EXPORT Dropout : public CloneableModule<Dropout> {
public:
    static constexpr char kType[] = "Dropout";

    explicit Dropout(double p = 0.5);

    TensorList Forward(const TensorList &inputs) override;

    double p() const { return p_; }

protected:
    std::string ExtraRepr() const override;

private:
    const double p_;
};

}  // namespace infini_train::nn
