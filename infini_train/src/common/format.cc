#include "infini_train/src/common/format.h"

namespace infini_train {

std::string FormatDims(std::span<const int64_t> dims) {
    return dims.size() == 1 ? fmt::format("({},)", dims[0]) : fmt::format("({})", fmt::join(dims, ", "));
}

}  // namespace infini_train
