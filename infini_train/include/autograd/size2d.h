#pragma once

#include <cstdint>

namespace infini_train::autograd {

/// A size or step in height and width; one number stands for both.
struct Size2d {
    int64_t height = 0;
    int64_t width = 0;

    Size2d(int64_t both) : height(both), width(both) {}  // NOLINT(google-explicit-constructor): 3 means (3, 3)
    Size2d(int64_t h, int64_t w) : height(h), width(w) {}

    friend bool operator==(const Size2d &, const Size2d &) = default;
};

}  // namespace infini_train::autograd
