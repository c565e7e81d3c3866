#pragma once

#include <cstddef>
#include <string>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train::utils {

/// The MD5 digest (RFC 1321) of some bytes, as 32 lower-case hexadecimal digits. Tells runs apart; it protects nothing.
INFINI_TRAIN_EXPORT std::string Md5(const void *data, size_t size);

/// The digest of a tensor's elements in row-major order, little-endian, as NumPy's `tobytes()` gives them; its shape
/// and data type don't enter. With a `tolerance` above 0 a floating-point element x counts as the nearest multiple of
/// it, round(x / tolerance), taken as a float64: values that differ by much less mostly have the same digest.
INFINI_TRAIN_EXPORT std::string Md5(const Tensor &tensor, double tolerance = 0);

}  // namespace infini_train::utils
