#pragma once

#include <string>
#include <vector>

#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/utils/tensor_statistics.h"

namespace infini_train::utils {

/// `3 nan, 2 inf, 7 zero of 640, from -1.5 to 2.25, mean 0.1, std 0.6`, or `all 640 finite, from ...`.
std::string DescribeStatistics(const TensorStatistics &statistics);

/// What stands in a line of PrecisionChecker's log: data type, shape, the statistics and the first values, or the
/// digest if there is one; `<- ERROR` at the end if something isn't finite.
std::string DescribeTensor(const Tensor &tensor, const TensorStatistics &statistics, const std::string &md5);

/// Rows of as many cells each, a line a row: columns two spaces apart, the first aligned left and the others right.
std::string AlignColumns(const std::vector<std::vector<std::string>> &rows);

}  // namespace infini_train::utils
