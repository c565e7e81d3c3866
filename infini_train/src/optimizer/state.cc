// An optimizer's state as named tensors, and back.

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/optimizer.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"

namespace infini_train {
namespace {

using State = std::map<std::string, TensorPtr>;

std::string GroupKey(size_t group, const char *name) {
    return fmt::format("group.{}.{}", group, name);
}

std::string ParamKey(size_t param, const std::string &name) {
    return fmt::format("{}.{}", param, name);
}

// Takes the entries of a state one by one and gathers what is wrong with them.
class StateReader {
public:
    explicit StateReader(const State &state) : state_(state) {}

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
        const TensorPtr tensor = Take(name);
        if (tensor == nullptr) {
            return 0;
        }
        if (tensor->NumElements() != 1) {
            problems_.push_back(fmt::format("{}: expected one number, got {}", name, FormatDims(tensor->Dims())));
            return 0;
        }
        const auto value = tensor->Item<double>();
        if (!(value >= min && (value < max || (included && value == max)))) {
            problems_.push_back(fmt::format("{} is {}", name, value));
        }
        return value;
    }

    TensorPtr TakeLike(const std::string &name, const Tensor &param) {
        TensorPtr tensor = Take(name);
        if (tensor != nullptr && (tensor->Dims() != param.Dims() || !IsFloatingPoint(tensor->Dtype()))) {
            problems_.push_back(fmt::format("{}: expected shape {}, got {} of {}", name, FormatDims(param.Dims()),
                                            FormatDims(tensor->Dims()), ToString(tensor->Dtype())));
        }
        return tensor;
    }

    void Finish(const std::string &type) {
        std::sort(known_.begin(), known_.end());
        for (const auto &[name, tensor] : state_) {
            if (!std::binary_search(known_.begin(), known_.end(), name)) {
                problems_.push_back(name + " is unexpected");
            }
        }
        if (!problems_.empty()) {
            Throw<ValueError>("{}: the state doesn't fit:\n  {}", type, fmt::join(problems_, "\n  "));
        }
    }

private:
    const State &state_;
    std::vector<std::string> known_;
    std::vector<std::string> problems_;
};

}  // namespace

// Groups' rates, options and parameters' states, all found to fit.
struct Optimizer::LoadedState {
    std::vector<std::pair<double, double>> rates;
    std::vector<double> options;
    std::vector<ParamState> states;
};

State Optimizer::StateDict() const {
    const auto number = [](double value) { return Tensor::FromScalar(value, DataType::kFLOAT64); };
    State state;
    for (size_t i = 0; i < groups_.size(); ++i) {
        state[GroupKey(i, "lr")] = number(*groups_[i].lr);
        state[GroupKey(i, "weight_decay")] = number(*groups_[i].weight_decay);
    }
    for (const Option &option : options_) {
        state[option.name] = number(*option.value);
    }
    for (size_t i = 0; i < states_.size(); ++i) {
        if (states_[i].step == 0) {
            continue;
        }
        state[ParamKey(i, "step")] = Tensor::FromScalar(states_[i].step, DataType::kINT64);
        for (size_t j = 0; j < state_names_.size(); ++j) {
            state[ParamKey(i, state_names_[j])] = states_[i].tensors[j]->Detach();
        }
    }
    return state;
}

Optimizer::LoadedState Optimizer::CheckState(const State &state) const {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    constexpr double kMaxSteps = 0x1p53;  // all integers up to here are numbers of float64
    LoadedState loaded;
    StateReader reader(state);
    for (size_t i = 0; i < groups_.size(); ++i) {
        const double lr = reader.TakeNumber(GroupKey(i, "lr"), 0, kInfinity, true);
        const double weight_decay = reader.TakeNumber(GroupKey(i, "weight_decay"), 0, kInfinity, true);
        loaded.rates.emplace_back(lr, weight_decay);
    }
    for (const Option &option : options_) {
        loaded.options.push_back(
            reader.TakeNumber(option.name, option.range.min, option.range.max, option.range.included));
    }
    for (size_t i = 0; i < params_.size(); ++i) {
        ParamState param{states_[i].group, 0, {}};
        // All of a parameter's entries are there, or none.
        const bool any = reader.Find(ParamKey(i, "step")) != nullptr ||
                         std::any_of(state_names_.begin(), state_names_.end(), [&](const std::string &name) {
                             return reader.Find(ParamKey(i, name)) != nullptr;
                         });
        if (any) {
            param.step = static_cast<int64_t>(reader.TakeNumber(ParamKey(i, "step"), 1, kMaxSteps, true));
            for (const std::string &name : state_names_) {
                param.tensors.push_back(reader.TakeLike(ParamKey(i, name), *params_[i]));
            }
        }
        loaded.states.push_back(std::move(param));
    }
    reader.Finish(type_);
    return loaded;
}

void Optimizer::LoadStateDict(const State &state) {
    const autograd::NoGradGuard no_grad;
    LoadedState loaded = CheckState(state);
    for (size_t i = 0; i < params_.size(); ++i) {
        for (TensorPtr &tensor : loaded.states[i].tensors) {
            TensorPtr copy = tensor->Detach()->To(params_[i]->GetDevice())->To(StateDtype(i));
            tensor = copy->storage() == tensor->storage() || !copy->IsContiguous() ? copy->Clone() : copy;
        }
    }
    states_ = std::move(loaded.states);
    for (size_t i = 0; i < groups_.size(); ++i) {
        std::tie(groups_[i].lr, groups_[i].weight_decay) = loaded.rates[i];
    }
    for (size_t i = 0; i < options_.size(); ++i) {
        *options_[i].value = loaded.options[i];
    }
}

}  // namespace infini_train
