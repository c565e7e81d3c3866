#include "infini_train/include/nn/modules/transformer/rotary_embedding.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numbers>
#include <utility>
#include <vector>

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/nn/functional.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/nn/inputs.h"

namespace infini_train::nn {
namespace {

// The angle per position of each pair.
std::vector<double> Frequencies(int64_t head_size, const RotaryOptions &options) {
    const RopeScaling &scaling = options.scaling;
    std::vector<double> frequencies;
    for (int64_t i = 0; i < head_size / 2; ++i) {
        const double plain = std::pow(options.theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_size));
        const double turns = plain * scaling.original_context / (2 * std::numbers::pi);
        // How much of the plain frequency stays: 1 for the fast pairs, 0 for the slow ones.
        double plain_share = 1;
        if (scaling.type == RopeScaling::Type::kLinear) {
            plain_share = 0;
        } else if (scaling.type == RopeScaling::Type::kLlama3) {
            plain_share = std::clamp(
                (turns - scaling.low_frequency_factor) / (scaling.high_frequency_factor - scaling.low_frequency_factor),
                0.0, 1.0);
        }
        frequencies.push_back(plain * (plain_share + (1 - plain_share) / scaling.factor));
    }
    return frequencies;
}

}  // namespace

// Cosines and sines by data type and device, for as many positions as were asked for so far.
struct RotaryEmbedding::Tables {
    struct Table {
        TensorPtr cos, sin;  // (positions, head_size / 2)
    };

    Tables(int64_t size, RotaryOptions rotary) : head_size(size), options(std::move(rotary)) {}

    Table Rows(int64_t count, DataType of, Device device) {
        const DataType dtype = of == DataType::kFLOAT64 ? DataType::kFLOAT64 : DataType::kFLOAT32;
        const std::lock_guard lock(mutex);
        for (Table &table : tables) {
            if (table.cos->Dtype() == dtype && table.cos->GetDevice() == device) {
                if (table.cos->Dim(0) < count) {
                    table = Compute(std::max(count, 2 * table.cos->Dim(0)), dtype, device);
                }
                return table;
            }
        }
        return tables.emplace_back(Compute(std::max<int64_t>(count, 64), dtype, device));
    }

    Table Compute(int64_t count, DataType dtype, Device device) const {
        return dtype == DataType::kFLOAT64 ? ComputeAs<double>(count, device) : ComputeAs<float>(count, device);
    }

    template <typename T>
    Table ComputeAs(int64_t count, Device device) const {
        const std::vector<double> frequencies = Frequencies(head_size, options);
        std::vector<T> cos, sin;
        for (int64_t position = 0; position < count; ++position) {
            for (const double frequency : frequencies) {
                const double angle = static_cast<double>(position) * frequency;
                cos.push_back(static_cast<T>(std::cos(angle)));
                sin.push_back(static_cast<T>(std::sin(angle)));
            }
        }
        const std::vector<int64_t> dims{count, head_size / 2};
        return {Tensor::FromVector(cos, dims, device), Tensor::FromVector(sin, dims, device)};
    }

    const int64_t head_size;
    const RotaryOptions options;
    std::mutex mutex;
    std::vector<Table> tables;
};

std::shared_ptr<RotaryEmbedding::Tables> RotaryEmbedding::TablesFor(int64_t head_size, const RotaryOptions &options) {
    static std::mutex mutex;
    static auto *known = new std::vector<std::weak_ptr<Tables>>;  // never destroyed: static modules may outlive it
    const std::lock_guard lock(mutex);
    known->erase(std::remove_if(known->begin(), known->end(), [](const auto &weak) { return weak.expired(); }),
                 known->end());
    for (const auto &weak : *known) {
        if (auto tables = weak.lock();
            tables != nullptr && tables->head_size == head_size && tables->options == options) {
            return tables;
        }
    }
    auto tables = std::make_shared<Tables>(head_size, options);
    known->push_back(tables);
    return tables;
}

RotaryEmbedding::RotaryEmbedding(int64_t head_size, const RotaryOptions &options)
    : CloneableModule(kType), head_size_(head_size), options_(options) {
    if (head_size < 2 || head_size % 2 != 0) {
        Throw<ValueError>("RotaryEmbedding: expected an even head size of at least 2, got {}", head_size);
    }
    tables_ = TablesFor(head_size, options);
}

TensorPtr RotaryEmbedding::Rotate(const TensorPtr &x, int64_t first) const {
    if (x->NumDims() < 2 || x->Dims().back() != head_size_) {
        Throw<ShapeError>("RotaryEmbedding: expected (..., positions, {}), got {}", head_size_, FormatDims(x->Dims()));
    }
    const int64_t length = x->Dim(-2);
    Tables::Table rows;
    {
        const autograd::NoGradGuard no_grad;
        rows = tables_->Rows(first + length, x->Dtype(), x->GetDevice());
        rows = {rows.cos->Narrow(0, first, length), rows.sin->Narrow(0, first, length)};
    }
    return function::RotaryEmbedding(x, rows.cos, rows.sin, options_.interleaved);
}

TensorList RotaryEmbedding::Forward(const TensorList &inputs) {
    const bool has_first = inputs.size() > 1 && inputs.back() != nullptr && inputs.back()->NumDims() == 0;
    TensorList outputs(inputs.begin(), inputs.end() - (has_first ? 1 : 0));
    autograd::CheckInputs(kType, outputs, 1, std::max<size_t>(outputs.size(), 1));
    const int64_t first = has_first ? inputs.back()->Item<int64_t>() : 0;
    if (first < 0) {
        Throw<IndexError>("RotaryEmbedding: expected a first position of at least 0, got {}", first);
    }
    for (TensorPtr &x : outputs) {
        x = Rotate(x, first);
    }
    return outputs;
}

std::string RotaryEmbedding::ExtraRepr() const {
    return fmt::format("head_size={}, theta={}, interleaved={}", head_size_, options_.theta, options_.interleaved);
}

}  // namespace infini_train::nn
