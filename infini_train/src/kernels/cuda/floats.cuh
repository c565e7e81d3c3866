#pragma once

#include <cstdint>
#include <type_traits>

#include "infini_train/include/datatype.h"

#include "infini_train/src/kernels/cuda/types.cuh"

namespace infini_train::cuda {

/// An element of a floating-point type that is known at run time, in what it is computed in: double for float64, float
/// for the others.
template <typename C>
__device__ __forceinline__ C LoadFloat(const void *data, DataType dtype, int64_t i) {
    if constexpr (std::is_same_v<C, double>) {
        return static_cast<const double *>(data)[i];
    } else {
        return dtype == DataType::kFLOAT32    ? static_cast<const float *>(data)[i]
               : dtype == DataType::kBFLOAT16 ? Load(static_cast<const __nv_bfloat16 *>(data)[i])
                                              : Load(static_cast<const __half *>(data)[i]);
    }
}
template <typename C>
__device__ __forceinline__ void StoreFloat(void *data, DataType dtype, int64_t i, C value) {
    if constexpr (std::is_same_v<C, double>) {
        static_cast<double *>(data)[i] = value;
    } else if (dtype == DataType::kFLOAT32) {
        static_cast<float *>(data)[i] = value;
    } else if (dtype == DataType::kBFLOAT16) {
        static_cast<__nv_bfloat16 *>(data)[i] = Store<__nv_bfloat16>(value);
    } else {
        static_cast<__half *>(data)[i] = Store<__half>(value);
    }
}

}  // namespace infini_train::cuda
