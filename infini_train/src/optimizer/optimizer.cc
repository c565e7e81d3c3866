#include "infini_train/include/optimizer.h"

#include <algorithm>
#include <exception>
#include <unordered_set>
#include <utility>

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/core/device_graph.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/hook_runner.h"
#include "infini_train/src/common/annotate.h"
#include "infini_train/src/common/format.h"
#include "infini_train/src/tensor/shape.h"

namespace infini_train {
namespace {

void CheckCallable(const OptimizerHook &hook) {
    if (hook == nullptr) {
        throw ValueError("Optimizer: expected a hook to call, got an empty function");
    }
}

}  // namespace

std::shared_ptr<HookHandle> OptimizerHooks::RegisterStepPreHook(OptimizerHook hook, const HookOptions &options) {
    CheckCallable(hook);
    return pre_.Add(std::move(hook), options);
}

std::shared_ptr<HookHandle> OptimizerHooks::RegisterStepPostHook(OptimizerHook hook, const HookOptions &options) {
    CheckCallable(hook);
    return post_.Add(std::move(hook), options);
}

OptimizerHooks &GlobalOptimizerHooks() {
    static OptimizerHooks &hooks = *new OptimizerHooks;  // never destroyed: static optimizers may still step
    return hooks;
}

Optimizer::Optimizer(const TensorList &params, double lr) : Optimizer("Optimizer", {{.params = params}}, lr, 0.0, {}) {}

Optimizer::Optimizer(std::string type, const std::vector<ParamGroup> &groups, double lr, double weight_decay,
                     std::vector<std::string> state_names)
    : type_(std::move(type)), lr_(lr), weight_decay_(weight_decay), state_names_(std::move(state_names)) {
    CheckRate("a learning rate", lr);
    CheckRate("a weight decay", weight_decay);
    if (groups.empty()) {
        Throw<ValueError>("{}: expected parameters, got no group of them", type_);
    }
    for (const ParamGroup &group : groups) {
        AddParamGroup(group);
    }
}

Optimizer::~Optimizer() = default;

void Optimizer::CheckRate(const char *name, double value) const {
    if (!(value >= 0)) {
        Throw<ValueError>("{}: expected {} >= 0, got {}", type_, name, value);
    }
}

void Optimizer::CheckGroup(const ParamGroup &group) const {
    CheckRate("a learning rate", group.lr.value_or(lr_));
    CheckRate("a weight decay", group.weight_decay.value_or(weight_decay_));
    if (group.params.empty()) {
        Throw<ValueError>("{}: expected parameters, got an empty list", type_);
    }
    std::unordered_set<const Tensor *> seen;
    for (const TensorPtr &param : params_) {
        seen.insert(param.get());
    }
    for (size_t i = 0; i < group.params.size(); ++i) {
        const TensorPtr &param = group.params[i];
        const size_t index = params_.size() + i;
        if (param == nullptr) {
            Throw<ValueError>("{}: parameter {} is null", type_, index);
        }
        if (!IsFloatingPoint(param->Dtype())) {
            Throw<DtypeError>("{}: expected floating-point parameters, parameter {} holds {}", type_, index,
                              ToString(param->Dtype()));
        }
        if (!param->is_leaf()) {
            Throw<AutogradError>("{}: expected leaves, parameter {} was computed", type_, index);
        }
        if (!seen.insert(param.get()).second) {
            Throw<ValueError>("{}: parameter {} of shape {} is given twice", type_, index, FormatDims(param->Dims()));
        }
    }
}

void Optimizer::AddParamGroup(const ParamGroup &group) {
    CheckGroup(group);
    for (const TensorPtr &param : group.params) {
        params_.push_back(param);
        states_.push_back({groups_.size(), 0, {}, nullptr});
    }
    groups_.push_back({group.params, group.lr.value_or(lr_), group.weight_decay.value_or(weight_decay_)});
}

void Optimizer::AddOption(const char *name, double *value, Range range) {
    if (!(*value >= range.min && (*value < range.max || (range.included && *value == range.max)))) {
        Throw<ValueError>("{}: expected {} in [{}, {}{}, got {}", type_, name, range.min, range.max,
                          range.included ? "]" : ")", *value);
    }
    options_.push_back({name, value, range});
}

double Optimizer::learning_rate(size_t group) const {
    if (group >= groups_.size()) {
        Throw<IndexError>("{}: expected a group below {}, got {}", type_, groups_.size(), group);
    }
    return *groups_[group].lr;
}

void Optimizer::set_learning_rate(double lr) {
    for (size_t i = 0; i < groups_.size(); ++i) {
        set_learning_rate(lr, i);
    }
}

void Optimizer::set_learning_rate(double lr, size_t group) {
    CheckRate("a learning rate", lr);
    learning_rate(group);  // checks the group
    groups_[group].lr = lr;
}

void Optimizer::set_master_weights(bool on) {
    master_weights_ = on;
    for (ParamState &state : states_) {
        state.master = on ? state.master : nullptr;
    }
}

void Optimizer::ZeroGrad(bool set_to_none) {
    for (const TensorPtr &param : params_) {
        param->ZeroGrad(set_to_none);
    }
}

std::shared_ptr<HookHandle> Optimizer::RegisterStepPreHook(OptimizerHook hook, const HookOptions &options) {
    return hooks_.RegisterStepPreHook(std::move(hook), options);
}

std::shared_ptr<HookHandle> Optimizer::RegisterStepPostHook(OptimizerHook hook, const HookOptions &options) {
    return hooks_.RegisterStepPostHook(std::move(hook), options);
}

void Optimizer::RemoveAfterSteps(std::shared_ptr<HookHandle> hook, uint64_t steps) {
    if (hook == nullptr || steps == 0) {
        Throw<ValueError>("{}: RemoveAfterSteps: expected a hook and at least one step, got {} and {}", type_,
                          hook == nullptr ? "null" : "a hook", steps);
    }
    RegisterStepPostHook(
        [hook = std::move(hook), left = steps](Optimizer *) mutable {
            if (--left == 0) {
                hook->Remove();
            }
        },
        {.always_call = true, .max_calls = steps});
}

void Optimizer::RunHook(const OptimizerHook &hook, const internal::HookState &state, const char *point) {
    const auto describe = [&] { return fmt::format("{} hook{} of {}", point, autograd::QuotedName(state), type_); };
    WithContext(describe, [&] { hook(this); });
}

void Optimizer::Step() {
    if (DeviceGraph::IsCapturing()) {
        Throw<ValueError>(
            "{}: Step: expected no capture of a DeviceGraph around it, which would keep this step's learning "
            "rate; take the step after each Replay()",
            type_);
    }
    const autograd::NoGradGuard no_grad;
    OptimizerHooks &global = GlobalOptimizerHooks();
    const uint64_t last_id = internal::LatestHookId();
    std::exception_ptr failure;
    try {
        const auto run_pre = [&](const HookList<OptimizerHook> &hooks, const char *point) {
            hooks.ForEach(last_id, [&](const OptimizerHook &hook, const internal::HookState &state) {
                RunHook(hook, state, point);
            });
        };
        run_pre(global.pre_, "global step pre");
        run_pre(hooks_.pre_, "step pre");
        StepImpl();
    } catch (...) {
        failure = std::current_exception();
        updates_.clear();
    }
    const auto run_post = [&](const HookList<OptimizerHook> &hooks, const char *point) {
        autograd::RunAlways(hooks, last_id, point, &failure,
                            [&](const OptimizerHook &hook, const internal::HookState &state, bool failed) {
                                failed ? hook(this) : RunHook(hook, state, point);
                            });
    };
    run_post(hooks_.post_, "step post");
    run_post(global.post_, "global step post");
    if (failure != nullptr) {
        std::rethrow_exception(failure);
    }
}

void Optimizer::CheckGrad(size_t index, const TensorPtr &grad) const {
    const Tensor &param = *params_[index];
    if (grad->Dims() != param.Dims()) {
        Throw<ShapeError>("{}: the gradient of parameter {} has shape {}, the parameter {}", type_, index,
                          FormatDims(grad->Dims()), FormatDims(param.Dims()));
    }
    if (grad->Dtype() != param.Dtype()) {
        Throw<DtypeError>("{}: the gradient of parameter {} holds {}, the parameter {}", type_, index,
                          ToString(grad->Dtype()), ToString(param.Dtype()));
    }
    if (grad->GetDevice() != param.GetDevice()) {
        Throw<DeviceError>("{}: the gradient of parameter {} is on {}, the parameter on {}", type_, index,
                           grad->GetDevice().ToString(), param.GetDevice().ToString());
    }
}

DataType Optimizer::StateDtype(size_t index) const {
    return params_[index]->Dtype() == DataType::kFLOAT64 ? DataType::kFLOAT64 : DataType::kFLOAT32;
}

bool Optimizer::HasMaster(size_t index) const {
    return master_weights_ && SizeOf(params_[index]->Dtype()) == 2;
}

void Optimizer::PrepareState(size_t index) {
    const TensorPtr &param = params_[index];
    const DataType dtype = StateDtype(index);
    TensorList &tensors = states_[index].tensors;
    if (tensors.size() != state_names_.size()) {
        TensorList made;
        for (size_t i = 0; i < state_names_.size(); ++i) {
            made.push_back(Tensor::Zeros(param->Dims(), dtype, param->GetDevice()));
        }
        tensors = std::move(made);
    }
    TensorPtr &master = states_[index].master;
    if (!HasMaster(index)) {
        master = nullptr;
    } else if (master == nullptr) {
        // Not the parameter rounded, except where that is 0: the first update takes over its values.
        master = Tensor::Zeros(param->Dims(), dtype, param->GetDevice());
    }
    const auto follow = [&](TensorPtr &tensor) {
        if (tensor->Dims() != param->Dims()) {
            Throw<ShapeError>("{}: parameter {} had shape {}, now it has {}", type_, index, FormatDims(tensor->Dims()),
                              FormatDims(param->Dims()));
        }
        if (tensor->Dtype() != dtype || tensor->GetDevice() != param->GetDevice()) {
            tensor = tensor->To(param->GetDevice())->To(dtype);
        }
    };
    std::for_each(tensors.begin(), tensors.end(), follow);
    if (master != nullptr) {
        follow(master);
    }
}

std::span<const Optimizer::Update> Optimizer::BeginUpdates() {
    updates_.clear();
    for (size_t i = 0; i < params_.size(); ++i) {
        TensorPtr grad = params_[i]->grad();
        if (grad == nullptr) {
            continue;
        }
        CheckGrad(i, grad);
        PrepareState(i);
        ParamState &state = states_[i];
        const bool direct = params_[i]->IsContiguous();
        updates_.push_back({direct ? params_[i] : ContiguousCopy(params_[i]),
                            grad->IsContiguous() ? std::move(grad) : ContiguousCopy(grad), &state.tensors, state.master,
                            &groups_[state.group], state.step + 1, i});
    }
    return updates_;
}

void Optimizer::EndUpdates() {
    for (const Update &update : updates_) {
        Tensor &param = *params_[update.index];
        if (update.param.get() == &param) {
            param.storage()->BumpVersion();
        } else {
            param.CopyFrom(*update.param);
        }
        states_[update.index].step = update.step;
    }
    updates_.clear();
}

}  // namespace infini_train
