#include "infini_train/src/autograd/sum_to.h"

#include "infini_train/include/tensor.h"

namespace infini_train::autograd {

TensorPtr SumTo(const TensorPtr &grad, const std::vector<int64_t> &dims) {
    const auto &from = grad->Dims();
    if (from == dims) {
        return grad;
    }
    const size_t added = from.size() - dims.size();
    std::vector<int64_t> repeated;
    for (size_t i = 0; i < from.size(); ++i) {
        if (i < added || (dims[i - added] == 1 && from[i] != 1)) {
            repeated.push_back(static_cast<int64_t>(i));
        }
    }
    // Only dimensions in front are dropped, so what is left has the right elements in the right order.
    return repeated.empty() ? grad->Reshape(dims) : grad->Sum(repeated, /*keep_dim=*/true)->Reshape(dims);
}

}  // namespace infini_train::autograd
