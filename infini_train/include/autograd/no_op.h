#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "infini_train/include/autograd/view.h"
#include "infini_train/include/common/export.h"

namespace infini_train::autograd {

/// The same elements with other dims, a view where possible. Throws ShapeError.
class INFINI_TRAIN_EXPORT NoOp : public Reshape {
public:
    static constexpr char kType[] = "NoOp";

    explicit NoOp(std::vector<int64_t> output_dims) : Reshape(kType, std::move(output_dims)) {}
};

}  // namespace infini_train::autograd
