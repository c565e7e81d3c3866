#pragma once

#include <cstdint>
#include <string>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/nn/modules/module.h"

namespace infini_train::nn {

/// Merges dimensions `start_dim` to `end_dim` into one: as it is, (N, C, H, W) gives (N, C * H * W). A view where
/// possible. Dimensions may count from the end; IndexError for one that isn't there.
class INFINI_TRAIN_EXPORT Flatten : public CloneableModule<Flatten> {
public:
    static constexpr char kType[] = "Flatten";

    explicit Flatten(int64_t start_dim = 1, int64_t end_dim = -1)
        : CloneableModule(kType), start_dim_(start_dim), end_dim_(end_dim) {}

    TensorList Forward(const TensorList &inputs) override;

protected:
    std::string ExtraRepr() const override;

private:
    const int64_t start_dim_;
    const int64_t end_dim_;
};

}  // namespace infini_train::nn
