#include <algorithm>
#include <cmath>
#include <iostream>
#include <mutex>
#include <string>
#include <vector>

#include "infini_train/include/core/device_backend.h"
#include "infini_train/include/dtype_dispatch.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/tensor/shape.h"

namespace infini_train {
namespace {

struct PrintOptions {
    int64_t precision = 4;
    int64_t threshold = 1000;
    int64_t edge_items = 3;
    int64_t line_width = 80;
    std::optional<bool> sci_mode;
};

std::mutex options_mutex;
PrintOptions &GlobalOptions() {
    static PrintOptions options;
    return options;
}

// Positions to show of a dimension: all of them, or the first and last few with -1 for the gap.
std::vector<int64_t> Shown(int64_t size, bool summarise, int64_t edge_items) {
    std::vector<int64_t> positions;
    const bool cut = summarise && size > 2 * edge_items;
    for (int64_t i = 0; i < size; ++i) {
        if (cut && i == edge_items) {
            positions.push_back(-1);
            i = size - edge_items;
        }
        positions.push_back(i);
    }
    return positions;
}

/// Decides on one form for all numbers shown: integers, fixed or scientific.
class FloatFormat {
public:
    FloatFormat(const std::vector<double> &values, const PrintOptions &options) : precision_(options.precision) {
        double largest = 0;
        double smallest = INFINITY;
        for (const double value : values) {
            if (std::isfinite(value) && value != 0) {
                largest = std::max(largest, std::abs(value));
                smallest = std::min(smallest, std::abs(value));
                integers_ = integers_ && value == std::ceil(value);
            }
        }
        const bool wide = largest > 0 && (largest / smallest > 1000 || largest > 1e8);
        scientific_ = options.sci_mode.value_or(wide || (!integers_ && smallest < 1e-4));
    }

    std::string operator()(double value) const {
        if (std::isnan(value)) {
            return "nan";
        }
        if (std::isinf(value)) {
            return value < 0 ? "-inf" : "inf";
        }
        if (scientific_) {
            return fmt::format("{:.{}e}", value, precision_);
        }
        return integers_ ? fmt::format("{:.0f}.", value) : fmt::format("{:.{}f}", value, precision_);
    }

private:
    const int64_t precision_;
    bool integers_ = true;
    bool scientific_ = false;
};

/// Lays the cells of a tensor out in nested brackets.
class Layout {
public:
    Layout(const Tensor &tensor, const PrintOptions &options)
        : tensor_(tensor), options_(options), summarise_(tensor.NumElements() > options.threshold) {
        std::vector<int64_t> offsets;
        Collect(0, 0, &offsets);
        Format(offsets);
        for (const auto &cell : cells_) {
            width_ = std::max(width_, cell.size());
        }
    }

    std::string Text(int64_t indent) {
        next_ = 0;
        return Nested(0, indent);
    }

private:
    void Collect(int64_t dim, int64_t offset, std::vector<int64_t> *offsets) const {
        if (dim == tensor_.NumDims()) {
            offsets->push_back(offset);
            return;
        }
        for (const int64_t i : Shown(tensor_.Dims()[dim], summarise_, options_.edge_items)) {
            if (i >= 0) {
                Collect(dim + 1, offset + i * tensor_.Strides()[dim], offsets);
            }
        }
    }

    void Format(const std::vector<int64_t> &offsets) {
        DispatchDtype(tensor_.Dtype(), [&]<typename T>() {
            const T *data = static_cast<const T *>(tensor_.DataPtr());
            if constexpr (std::is_same_v<T, bool>) {
                for (const int64_t offset : offsets) {
                    cells_.emplace_back(data[offset] ? "True" : "False");
                }
            } else if constexpr (std::is_integral_v<T>) {
                for (const int64_t offset : offsets) {
                    cells_.push_back(std::to_string(data[offset]));
                }
            } else {
                std::vector<double> values;
                for (const int64_t offset : offsets) {
                    values.push_back(Scalar(data[offset]).To<double>());
                }
                const FloatFormat format(values, options_);
                for (const double value : values) {
                    cells_.push_back(format(value));
                }
            }
        });
    }

    std::string NextCell() {
        const std::string &cell = cells_[next_++];
        return std::string(width_ - cell.size(), ' ') + cell;
    }

    std::string Nested(int64_t dim, int64_t indent) {
        if (dim == tensor_.NumDims()) {
            return NextCell();
        }
        const auto positions = Shown(tensor_.Dims()[dim], summarise_, options_.edge_items);
        if (dim == tensor_.NumDims() - 1) {
            return Row(positions, indent);
        }
        const std::string between =
            "," + std::string(static_cast<size_t>(tensor_.NumDims() - dim - 1), '\n') + std::string(indent + 1, ' ');
        std::string text = "[";
        for (size_t i = 0; i < positions.size(); ++i) {
            text += (i == 0 ? "" : between) + (positions[i] < 0 ? "..." : Nested(dim + 1, indent + 1));
        }
        return text + "]";
    }

    std::string Row(const std::vector<int64_t> &positions, int64_t indent) {
        const int64_t per_line =
            std::max<int64_t>(1, (options_.line_width - indent) / static_cast<int64_t>(width_ + 2));
        std::string text = "[";
        for (size_t i = 0; i < positions.size(); ++i) {
            if (i > 0) {
                const bool breaks = static_cast<int64_t>(i) % per_line == 0;
                text += breaks ? ",\n" + std::string(indent + 1, ' ') : ", ";
            }
            text += positions[i] < 0 ? " ..." : NextCell();
        }
        return text + "]";
    }

    const Tensor &tensor_;
    const PrintOptions &options_;
    const bool summarise_;
    std::vector<std::string> cells_;
    size_t width_ = 0;
    size_t next_ = 0;
};

}  // namespace

std::string Tensor::ToString() const {
    PrintOptions options;
    {
        std::lock_guard lock(options_mutex);
        options = GlobalOptions();
    }
    constexpr int64_t kIndent = 7;  // what stands before the first bracket
    std::string text = "tensor(";
    if (NumElements() == 0) {
        text += "[]";
        if (NumDims() != 1) {
            text += ", size=" + FormatDims(Dims());
        }
    } else if (GetDevice().IsCPU()) {
        text += Layout(*this, options).Text(kIndent);
    } else {
        const TensorPtr dense = IsContiguous() ? Detach() : CastCopy(*this, dtype_);
        const TensorPtr on_cpu = EmptyLike(*this, dtype_);
        GetDeviceBackend(GetDevice()).Copy(on_cpu->DataPtr(), Device(), dense->DataPtr(), GetDevice(), SizeInBytes());
        text += Layout(*on_cpu, options).Text(kIndent) + ", device=" + GetDevice().ToString();
    }
    if (dtype_ != DataType::kFLOAT32 && dtype_ != DataType::kINT64 && dtype_ != DataType::kBOOL) {
        text += ", dtype=" + infini_train::ToString(dtype_);
    }
    return text + (requires_grad() ? ", requires_grad=true)" : ")");
}

void Tensor::Print(std::ostream &stream) const {
    stream << ToString();
}

void Tensor::Print() const {
    std::cout << ToString() << '\n';
}

void Tensor::SetPrintOptions(std::optional<int64_t> precision, std::optional<int64_t> threshold,
                             std::optional<int64_t> edge_items, std::optional<int64_t> line_width,
                             std::optional<bool> sci_mode) {
    for (const auto &number : {precision, threshold, edge_items, line_width}) {
        if (number.value_or(1) < 0) {
            Throw<ValueError>("Tensor::SetPrintOptions: expected numbers >= 0, got {}", *number);
        }
    }
    std::lock_guard lock(options_mutex);
    PrintOptions &options = GlobalOptions();
    options.precision = precision.value_or(options.precision);
    options.threshold = threshold.value_or(options.threshold);
    options.edge_items = edge_items.value_or(options.edge_items);
    options.line_width = line_width.value_or(options.line_width);
    options.sci_mode = sci_mode;
}

}  // namespace infini_train
