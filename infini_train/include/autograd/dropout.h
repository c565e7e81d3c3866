#pragma once

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/core/generator.h"

namespace infini_train::autograd {

/// In training each element becomes 0 with probability `drop_probability`; what is kept is multiplied by
/// 1 / (1 - drop_probability), so that the expected value stays. Otherwise, and for 0, the input itself. No generator
/// means DefaultGenerator(); the draw is one of a number an element, in row-major order. Throws ValueError for a
/// probability outside of [0, 1], DtypeError for a type that isn't floating-point.
class INFINI_TRAIN_EXPORT Dropout : public Function {
public:
    static constexpr char kType[] = "Dropout";

    explicit Dropout(double drop_probability = 0.5, bool training = true, Generator *generator = nullptr);

    TensorList Forward(const TensorList &inputs) override;
    void SetupContext(const TensorList &inputs, const TensorList &outputs) override;
    TensorList Backward(const TensorList &grad_outputs) override;

    /// The output for `input`; where nothing is dropped that is `input` itself and nothing is recorded.
    static TensorPtr Run(const TensorPtr &input, double drop_probability = 0.5, bool training = true,
                         Generator *generator = nullptr);

private:
    double Scale() const;

    const double drop_probability_;
    const bool training_;
    Generator *const generator_;
    TensorPtr mask_;  // from Forward to SetupContext; null if nothing was dropped
    bool identity_ = false;
};

}  // namespace infini_train::autograd
