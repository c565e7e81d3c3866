#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace infini_train::cpu {

/// Calls `body(offsets, count)` for the parts of rows (the last dimension) that make up the row-major positions
/// [begin, end) of an array of `dims`. offsets[k] is where the part starts in an operand with the strides strides[k].
template <size_t N, typename Body>
void ForEachRow(std::span<const int64_t> dims, const std::array<const int64_t *, N> &strides, int64_t begin,
                int64_t end, Body &&body) {
    std::array<int64_t, N> offsets{};
    if (dims.empty()) {
        if (begin < end) {
            body(offsets, int64_t{1});
        }
        return;
    }
    const size_t last = dims.size() - 1;
    std::vector<int64_t> position(dims.size(), 0);
    int64_t rest = begin;
    for (size_t d = dims.size(); d-- > 0 && rest > 0;) {
        position[d] = rest % dims[d];
        rest /= dims[d];
        for (size_t k = 0; k < N; ++k) {
            offsets[k] += position[d] * strides[k][d];
        }
    }
    while (begin < end) {
        const int64_t count = end - begin < dims[last] - position[last] ? end - begin : dims[last] - position[last];
        body(static_cast<const std::array<int64_t, N> &>(offsets), count);
        begin += count;
        for (size_t k = 0; k < N; ++k) {
            offsets[k] -= position[last] * strides[k][last];
        }
        position[last] = 0;
        // Carries into the next row.
        for (size_t d = last; d-- > 0;) {
            const bool wraps = ++position[d] == dims[d];
            for (size_t k = 0; k < N; ++k) {
                offsets[k] += wraps ? (1 - dims[d]) * strides[k][d] : strides[k][d];
            }
            if (!wraps) {
                break;
            }
            position[d] = 0;
        }
    }
}

}  // namespace infini_train::cpu
