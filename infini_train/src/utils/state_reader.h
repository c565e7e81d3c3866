#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "infini_train/include/common/error.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"

namespace infini_train {

/// What a state dict is, whoever wrote it.
using NamedTensors = std::map<std::string, TensorPtr>;

/// Takes the entries of a state one by one and gathers what is wrong with them; Finish throws it, with every entry that
/// nobody took.
class StateReader {
public:
    explicit StateReader(const NamedTensors &state) : state_(state) {}

    TensorPtr Find(const std::string &name) const {
        const auto found = state_.find(name);
        return found != state_.end() ? found->second : nullptr;
    }

    TensorPtr Take(const std::string &name) {
        TensorPtr tensor = Find(name);
        if (tensor == nullptr) {
            problems_.push_back(name + " is missing");
        }
        known_.push_back(name);
        return tensor;
    }

    double TakeNumber(const std::string &name, double min, double max, bool included) {
        const TensorPtr tensor = TakeOne(name);
        const double value = tensor != nullptr ? tensor->Item<double>() : 0;
        if (tensor != nullptr && !(value >= min && (value < max || (included && value == max)))) {
            problems_.push_back(fmt::format("{} is {}", name, value));
        }
        return value;
    }

    /// Exact for all 64 bits; `fallback` where something is wrong.
    template <typename T>
    T TakeInteger(const std::string &name, T min, T max, T fallback) {
        const TensorPtr tensor = TakeOne(name);
        if (tensor == nullptr) {
            return fallback;
        }
        if (tensor->Dtype() != kDataTypeOf<T>) {
            problems_.push_back(
                fmt::format("{}: expected {}, got {}", name, ToString(kDataTypeOf<T>), ToString(tensor->Dtype())));
            return fallback;
        }
        const T value = tensor->Item<T>();
        if (value < min || value > max) {
            problems_.push_back(fmt::format("{} is {}", name, value));
            return fallback;
        }
        return value;
    }

    /// A list of numbers of T's data type.
    template <typename T>
    std::vector<T> TakeList(const std::string &name) {
        const TensorPtr tensor = Take(name);
        if (tensor == nullptr) {
            return {};
        }
        if (tensor->NumDims() != 1 || tensor->Dtype() != kDataTypeOf<T>) {
            problems_.push_back(fmt::format("{}: expected a list of {}, got {} of {}", name, ToString(kDataTypeOf<T>),
                                            FormatDims(tensor->Dims()), ToString(tensor->Dtype())));
            return {};
        }
        return tensor->ToVector<T>();
    }

    TensorPtr TakeLike(const std::string &name, const Tensor &param) {
        TensorPtr tensor = Take(name);
        if (tensor != nullptr && (tensor->Dims() != param.Dims() || !IsFloatingPoint(tensor->Dtype()))) {
            problems_.push_back(fmt::format("{}: expected shape {}, got {} of {}", name, FormatDims(param.Dims()),
                                            FormatDims(tensor->Dims()), ToString(tensor->Dtype())));
        }
        return tensor;
    }

    void AddProblem(std::string problem) { problems_.push_back(std::move(problem)); }

    void Finish(const std::string &owner) {
        std::sort(known_.begin(), known_.end());
        for (const auto &[name, tensor] : state_) {
            if (!std::binary_search(known_.begin(), known_.end(), name)) {
                problems_.push_back(name + " is unexpected");
            }
        }
        if (!problems_.empty()) {
            Throw<ValueError>("{}: the state doesn't fit:\n  {}", owner, fmt::join(problems_, "\n  "));
        }
    }

private:
    TensorPtr TakeOne(const std::string &name) {
        TensorPtr tensor = Take(name);
        if (tensor != nullptr && tensor->NumElements() != 1) {
            problems_.push_back(fmt::format("{}: expected one number, got {}", name, FormatDims(tensor->Dims())));
            return nullptr;
        }
        return tensor;
    }

    const NamedTensors &state_;
    std::vector<std::string> known_;
    std::vector<std::string> problems_;
};

}  // namespace infini_train
