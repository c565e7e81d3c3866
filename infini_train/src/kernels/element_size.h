#pragma once

#include <cstddef>
#include <cstdint>

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

}  // namespace infini_train::kernels
