#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace infini_train {

/// Throws E with a formatted message: `Throw<ShapeError>("Matmul: expected a matrix, got {}", FormatDims(dims))`.
template <typename E, typename... Args>
[[noreturn]] [[gnu::cold]] void Throw(fmt::format_string<Args...> format, Args &&...args) {
    throw E(fmt::format(format, std::forward<Args>(args)...));
}

/// Sizes as Python prints a tuple: `(2, 3)`, `(5,)`, `()`.
std::string FormatDims(std::span<const int64_t> dims);

}  // namespace infini_train
