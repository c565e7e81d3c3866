// An optimizer's state as named tensors, and back.

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/optimizer.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/utils/state_reader.h"

namespace infini_train {
namespace {

using State = NamedTensors;

std::string GroupKey(size_t group, const char *name) {
    return fmt::format("group.{}.{}", group, name);
}

constexpr char kMaster[] = "master_param";

std::string ParamKey(size_t param, const std::string &name) {
    return fmt::format("{}.{}", param, name);
}

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
        if (states_[i].master != nullptr) {
            state[ParamKey(i, kMaster)] = states_[i].master->Detach();
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
        ParamState param{states_[i].group, 0, {}, nullptr};
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
            if (reader.Find(ParamKey(i, kMaster)) != nullptr) {
                param.master = reader.TakeLike(ParamKey(i, kMaster), *params_[i]);
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
        const auto copy = [&](TensorPtr &tensor) {
            TensorPtr copied = tensor->Detach()->To(params_[i]->GetDevice())->To(StateDtype(i));
            tensor = copied->storage() == tensor->storage() || !copied->IsContiguous() ? copied->Clone() : copied;
        };
        ParamState &param = loaded.states[i];
        std::for_each(param.tensors.begin(), param.tensors.end(), copy);
        if (!HasMaster(i)) {
            param.master = nullptr;
        } else if (param.master != nullptr) {
            copy(param.master);
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
