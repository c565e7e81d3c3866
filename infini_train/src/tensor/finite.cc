#include "infini_train/src/tensor/finite.h"

#include <utility>

namespace infini_train {

std::string DescribeNonFinite(int kinds) {
    constexpr std::pair<int, const char *> kNames[] = {
        {kernels::kHasNan, "nan"}, {kernels::kHasPositiveInf, "inf"}, {kernels::kHasNegativeInf, "-inf"}};
    std::string text;
    for (const auto &[kind, name] : kNames) {
        if ((kinds & kind) != 0) {
            const bool last = (kinds & ~(2 * kind - 1)) == 0;
            text += (text.empty() ? "" : last ? " and " : ", ") + std::string(name);
        }
    }
    return text;
}

}  // namespace infini_train
