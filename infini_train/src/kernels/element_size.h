#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "infini_train/include/dtype_dispatch.h"
#include "infini_train/include/scalar.h"

namespace infini_train::kernels {

/// Calls `body.operator()<T>()` with the unsigned integer that has the size of one element.
template <typename Body>
void DispatchElementSize(size_t size, Body &&body) {
    switch (size) {
        case 1:
            return body.template operator()<uint8_t>();
        case 2:
            return body.template operator()<uint16_t>();
        case 4:
            return body.template operator()<uint32_t>();
        default:
            return body.template operator()<uint64_t>();
    }
}

/// A number as an element of `dtype`, in the unsigned integer T of its size.
template <typename T>
T BitsOf(Scalar value, DataType dtype) {
    T bits = 0;
    DispatchDtype(dtype, [&]<typename U>() {
        if constexpr (sizeof(U) == sizeof(T)) {
            const U converted = value.To<U>();
            std::memcpy(&bits, &converted, sizeof(T));
        }
    });
    return bits;
}

}  // namespace infini_train::kernels
