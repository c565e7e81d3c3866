#include "infini_train/include/lr_scheduler.h"

#include <type_traits>
#include <utility>

#include "infini_train/include/common/error.h"
#include "infini_train/include/optimizer.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"
#include "infini_train/src/utils/state_reader.h"

namespace infini_train {
namespace {

TensorPtr ToTensor(double value) {
    return Tensor::FromScalar(value, DataType::kFLOAT64);
}
TensorPtr ToTensor(int64_t value) {
    return Tensor::FromScalar(value, DataType::kINT64);
}
template <typename T>
TensorPtr ToTensor(const std::vector<T> &values) {
    return Tensor::FromVector(values);
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void Take(StateReader &reader, const std::string &name, double *value) {
    *value = reader.TakeNumber(name, -kInfinity, kInfinity, true);
}
void Take(StateReader &reader, const std::string &name, int64_t *value) {
    using Limits = std::numeric_limits<int64_t>;
    *value = reader.TakeInteger<int64_t>(name, Limits::min(), Limits::max(), 0);
}
template <typename T>
void Take(StateReader &reader, const std::string &name, std::vector<T> *values) {
    *values = reader.TakeList<T>(name);
}

}  // namespace

LRSchedulerBase::LRSchedulerBase(std::string type, std::shared_ptr<Optimizer> optimizer)
    : type_(std::move(type)), optimizer_(std::move(optimizer)) {
    if (optimizer_ == nullptr) {
        Throw<ValueError>("{}: expected an optimizer, got null", type_);
    }
    FindNewGroups();
}

LRSchedulerBase::~LRSchedulerBase() = default;

void LRSchedulerBase::AddOption(std::string name, Value value) {
    options_.push_back({std::move(name), value});
}

void LRSchedulerBase::FindNewGroups() {
    std::vector<double> &initial = optimizer_->initial_rates_;
    for (size_t i = initial.size(); i < optimizer_->groups().size(); ++i) {
        initial.push_back(optimizer_->learning_rate(i));
    }
    for (size_t i = base_lr_.size(); i < initial.size(); ++i) {
        base_lr_.push_back(initial[i]);
        last_lr_.push_back(optimizer_->learning_rate(i));
    }
}

void LRSchedulerBase::SetRates(std::vector<double> rates) {
    for (size_t i = 0; i < rates.size(); ++i) {
        if (!(rates[i] >= 0)) {
            Throw<ValueError>("{}: expected a learning rate >= 0 for group {}, got {}", type_, i, rates[i]);
        }
    }
    for (size_t i = 0; i < rates.size(); ++i) {
        optimizer_->set_learning_rate(rates[i], i);
    }
    last_lr_ = std::move(rates);
}

void LRSchedulerBase::CheckAll() const {
    const auto check = [&](const char *name, const std::vector<double> &rates) {
        if (rates.size() != optimizer_->groups().size()) {
            Throw<ValueError>("{}: expected {} rates as {}, one a group, got {}", type_, optimizer_->groups().size(),
                              name, rates.size());
        }
        for (const double rate : rates) {
            if (!(rate >= 0)) {
                Throw<ValueError>("{}: expected rates >= 0 as {}, got {}", type_, name, rate);
            }
        }
    };
    check("base_lr", base_lr_);
    check("lr", last_lr_);
    CheckOptions();
}

std::map<std::string, TensorPtr> LRSchedulerBase::StateDict() const {
    NamedTensors state;
    state["step"] = ToTensor(step_);
    state["base_lr"] = ToTensor(base_lr_);
    state["lr"] = ToTensor(last_lr_);
    for (const Option &option : options_) {
        state[option.name] = std::visit([](const auto *value) { return ToTensor(*value); }, option.value);
    }
    return state;
}

void LRSchedulerBase::LoadStateDict(const std::map<std::string, TensorPtr> &state) {
    StateReader reader(state);
    const auto step = reader.TakeInteger<int64_t>("step", 0, std::numeric_limits<int64_t>::max(), 0);
    auto base_lr = reader.TakeList<double>("base_lr");
    auto last_lr = reader.TakeList<double>("lr");
    using Loaded = std::variant<double, int64_t, std::vector<double>, std::vector<int64_t>>;
    std::vector<Loaded> values;
    for (const Option &option : options_) {
        std::visit(
            [&](const auto *value) {
                std::remove_cvref_t<decltype(*value)> loaded{};
                Take(reader, option.name, &loaded);
                values.emplace_back(std::move(loaded));
            },
            option.value);
    }
    reader.Finish(type_);

    // Settings are checked where they are, and put back if they make no sense.
    const auto swap_all = [&] {
        base_lr_.swap(base_lr);
        last_lr_.swap(last_lr);
        for (size_t i = 0; i < options_.size(); ++i) {
            std::visit(
                [&](auto *value) { std::swap(*value, std::get<std::remove_cvref_t<decltype(*value)>>(values[i])); },
                options_[i].value);
        }
    };
    swap_all();
    try {
        CheckAll();
    } catch (...) {
        swap_all();
        throw;
    }
    step_ = step;
    optimizer_->initial_rates_ = base_lr_;
    SetRates(last_lr_);
}

void LRScheduler::Start() {
    CheckOptions();
    SetRates(Rates(0));
}

void LRScheduler::AddInner(size_t number, LRScheduler &inner) {
    for (const Option &option : inner.options_) {
        AddOption(fmt::format("{}.{}", number, option.name), option.value);
    }
}

std::vector<double> LRScheduler::Rates(int64_t step) const {
    std::vector<double> rates;
    for (size_t i = 0; i < base_lr().size(); ++i) {
        rates.push_back(At(step, base_lr()[i], i));
    }
    return rates;
}

void LRScheduler::Step() {
    FindNewGroups();
    SetRates(Rates(step() + 1));
    CountStep();
}

}  // namespace infini_train
