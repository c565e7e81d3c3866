#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/datatype.h"

namespace infini_train::utils {

/// x agrees with a baseline b if |x - b| <= atol + rtol * |b|.
struct Tolerance {
    double rtol = 0;
    double atol = 0;
};

/// PyTorch's of torch.testing.assert_close: (rtol, atol) is (1e-3, 1e-5) for float16, (1.6e-2, 1e-5) for bfloat16,
/// (1.3e-6, 1e-5) for float32, (1e-7, 1e-7) for float64, and nothing for any other type.
INFINI_TRAIN_EXPORT Tolerance DefaultTolerance(DataType dtype);

/// How many representable numbers of a floating-point type lie between two (0 for equal ones, 1 for neighbours), after
/// both are rounded to it; -0 equals 0. The largest number there is if either is NaN and the other isn't. Throws
/// DtypeError for any other type.
INFINI_TRAIN_EXPORT uint64_t UlpDistance(double a, double b, DataType dtype);

/// How far two tensors are apart. NaN agrees with NaN, an infinity with the same infinity; where only one is finite the
/// absolute and relative differences are infinite.
struct INFINI_TRAIN_EXPORT TensorDifference {
    bool within = true;     ///< shapes are equal and every element agrees
    bool identical = true;  ///< shapes are equal and every element is (NaN counts as equal to NaN)
    std::string mismatch;   ///< what can't be compared, as `(2, 3) against (3, 2)`; the numbers below mean nothing then
    int64_t count = 0;
    int64_t outside = 0;   ///< elements that don't agree
    double max_abs = 0;    ///< of |x - b|
    double max_rel = 0;    ///< of |x - b| / |b| where b isn't 0
    uint64_t max_ulp = 0;  ///< in the coarser of the two data types; 0 for integers
    double cosine = 1;     ///< of the angle between the two as vectors, over what is finite in both; 1 for two zeros
    std::vector<int64_t> worst;  ///< where |x - b| exceeds its tolerance by most
    double worst_baseline = 0;   ///< the values there
    double worst_other = 0;
};

/// Compares element by element, in float64 (integers and bool exactly). Without a tolerance that of the coarser data
/// type holds. Data types may differ, shapes may not.
INFINI_TRAIN_EXPORT TensorDifference CompareTensors(const Tensor &baseline, const Tensor &other,
                                                    std::optional<Tolerance> tolerance = std::nullopt);

}  // namespace infini_train::utils
