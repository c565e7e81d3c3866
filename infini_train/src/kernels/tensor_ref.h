#pragma once

#include <cstdint>
#include <span>

#include "infini_train/include/datatype.h"

namespace infini_train {

/// What a kernel sees of a tensor. Dims and strides (in elements) belong to the tensor and outlive the call.
struct ConstTensorRef {
    const void *data = nullptr;
    const int64_t *dims = nullptr;
    const int64_t *strides = nullptr;
    int ndim = 0;
    DataType dtype = DataType::kFLOAT32;
    int64_t num_elements = 0;
    bool is_contiguous = true;

    template <typename T>
    const T *Data() const {
        return static_cast<const T *>(data);
    }
    std::span<const int64_t> Dims() const { return {dims, static_cast<size_t>(ndim)}; }
};

/// The same for a tensor that the kernel writes.
struct TensorRef {
    void *data = nullptr;
    const int64_t *dims = nullptr;
    const int64_t *strides = nullptr;
    int ndim = 0;
    DataType dtype = DataType::kFLOAT32;
    int64_t num_elements = 0;
    bool is_contiguous = true;

    template <typename T>
    T *Data() const {
        return static_cast<T *>(data);
    }
    std::span<const int64_t> Dims() const { return {dims, static_cast<size_t>(ndim)}; }
    operator ConstTensorRef() const {  // NOLINT(google-explicit-constructor): what may be written may be read
        return {data, dims, strides, ndim, dtype, num_elements, is_contiguous};
    }
};

}  // namespace infini_train
