#include "infini_train/src/common/format.h"

namespace infini_train {

std::string FormatDims(std::span<const int64_t> dims) {
    std::string text = "(";
    for (size_t i = 0; i < dims.size(); ++i) {
        text += (i == 0 ? "" : ", ") + std::to_string(dims[i]);
    }
    return text + (dims.size() == 1 ? ",)" : ")");
}

}  // namespace infini_train
