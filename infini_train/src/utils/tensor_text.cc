#include "infini_train/src/utils/tensor_text.h"

#include <algorithm>
#include <utility>

#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"

namespace infini_train::utils {

std::string DescribeStatistics(const TensorStatistics &statistics) {
    if (statistics.count == 0) {
        return "no elements";
    }
    std::string text;
    for (const auto &[count, name] :
         {std::pair{statistics.nans, "nan"}, std::pair{statistics.infs, "inf"}, std::pair{statistics.zeros, "zero"}}) {
        if (count > 0) {
            text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, name);
        }
    }
    text += text.empty() ? fmt::format("all {} finite", statistics.count) : fmt::format(" of {}", statistics.count);
    if (statistics.Finite() > 0) {
        text += fmt::format(", from {:.4g} to {:.4g}, mean {:.4g}, std {:.4g}", statistics.min, statistics.max,
                            statistics.mean, statistics.std);
    }
    return text;
}

std::string DescribeTensor(const Tensor &tensor, const TensorStatistics &statistics, const std::string &md5) {
    constexpr int64_t kShown = 6;
    std::string text = fmt::format("dtype={} shape={} ", ToString(tensor.Dtype()), FormatDims(tensor.Dims()));
    if (!md5.empty()) {
        text += "md5=" + md5;
    } else {
        const int64_t count = std::min(kShown, tensor.NumElements());
        const std::vector<double> first =
            tensor.IsContiguous()
                ? Tensor(tensor.storage(), {count}, {1}, tensor.StorageOffset(), tensor.Dtype()).ToVector<double>()
                : tensor.ToVector<double>();
        text += fmt::format("min={:.6g} max={:.6g} mean={:.6g} std={:.6g} [{:.6g}{}]", statistics.min, statistics.max,
                            statistics.mean, statistics.std, fmt::join(first.begin(), first.begin() + count, ", "),
                            tensor.NumElements() > count ? ", ..." : "");
    }
    return text + fmt::format(" [NaN:{} Inf:{}]{}", statistics.nans, statistics.infs,
                              statistics.NonFinite() > 0 ? " <- ERROR" : "");
}

std::string AlignColumns(const std::vector<std::vector<std::string>> &rows) {
    std::vector<size_t> widths;
    for (const auto &row : rows) {
        widths.resize(std::max(widths.size(), row.size()));
        for (size_t i = 0; i < row.size(); ++i) {
            widths[i] = std::max(widths[i], row[i].size());
        }
    }
    std::string text;
    for (const auto &row : rows) {
        for (size_t i = 0; i < row.size(); ++i) {
            text += i == 0 ? fmt::format("{:<{}}", row[i], widths[i]) : fmt::format("  {:>{}}", row[i], widths[i]);
        }
        text += '\n';
    }
    return text;
}

}  // namespace infini_train::utils
