#pragma once

#include "infini_train/include/tensor.h"

#include "infini_train/src/kernels/tensor_ref.h"

namespace infini_train {

/// What kernels see of a tensor; valid as long as the tensor is.
inline TensorRef Ref(Tensor &tensor) {
    return {tensor.DataPtr(), tensor.Dims().data(), tensor.Strides().data(), static_cast<int>(tensor.NumDims()),
            tensor.Dtype(),   tensor.NumElements(), tensor.IsContiguous()};
}
inline ConstTensorRef Ref(const Tensor &tensor) {
    return Ref(const_cast<Tensor &>(tensor));
}
inline TensorRef Ref(const TensorPtr &tensor) {
    return Ref(*tensor);
}

}  // namespace infini_train
