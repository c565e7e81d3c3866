#include "infini_train/src/utils/observer.h"

#include <algorithm>
#include <map>

#include "infini_train/include/autograd/anomaly_mode.h"
#include "infini_train/include/tensor.h"
#include "infini_train/include/utils/global_function_hook_registry.h"
#include "infini_train/include/utils/global_module_hook_registry.h"

#include "infini_train/src/autograd/graph_task.h"

namespace infini_train::utils {
namespace {

using autograd::Function;

// Functions that are there for the library's own sake: the identities around a module with backward hooks, and what
// writes over a tensor only after it was applied.
bool IsOperator(const Function &function) {
    const std::string &type = function.type();
    return type != "ModuleInput" && type != "ModuleOutput" && type != "Overwrite" && type != "AccumulateGrad";
}

bool InBackwardPass() {
    return autograd::GraphTask::Current() != nullptr;
}

// How deep this thread is in the calls that each observer follows.
thread_local std::vector<std::pair<uint64_t, int>> depths;

int *FindDepth(uint64_t observer) {
    const auto found =
        std::find_if(depths.begin(), depths.end(), [&](const auto &entry) { return entry.first == observer; });
    return found == depths.end() ? nullptr : &found->second;
}

}  // namespace

struct Observer::Core final : Observer::Context {
    // Of a function that was seen forward: which application it was. The address alone may be another's by now.
    struct Seen {
        uint64_t sequence = 0;
        int64_t number = -1;
    };

    uint64_t id = 0;
    nn::Module *model = nullptr;
    bool number_calls = false;
    Handlers handlers;
    std::atomic<int64_t> steps{0};

    mutable std::mutex mutex;                       // guards what follows
    std::vector<std::weak_ptr<nn::Module>> models;  // those that were called, while the whole program is observed
    std::map<std::pair<std::string, std::string>, int64_t> calls;  // by module and type, in this step
    std::unordered_map<const Function *, Seen> seen;

    int64_t step() const override { return steps.load(); }
    std::string NameOf(const Tensor *tensor) const override {
        const auto names = Names();
        const auto found = names.find(tensor);
        return found == names.end() ? std::string() : found->second;
    }

    // True for the outermost call.
    bool Enter() const {
        if (int *depth = FindDepth(id)) {
            return ++*depth == 1;
        }
        depths.emplace_back(id, 1);
        return true;
    }
    void Leave() const {
        int *depth = FindDepth(id);
        if (depth != nullptr && --*depth <= 0) {
            std::erase_if(depths, [&](const auto &entry) { return entry.first == id; });
        }
    }
    bool InScope() const { return model == nullptr || FindDepth(id) != nullptr; }

    void OnModule(nn::Module *module, const TensorList &inputs) {
        if (!Enter() || InBackwardPass()) {
            return;
        }
        if (model == nullptr) {
            const std::lock_guard lock(mutex);
            std::erase_if(models, [](const auto &known) { return known.expired(); });
            const bool known = std::any_of(models.begin(), models.end(),
                                           [&](const auto &other) { return other.lock().get() == module; });
            if (!known && module->weak_from_this().lock() != nullptr) {
                models.push_back(module->weak_from_this());
            }
        }
        if (handlers.enter) {
            handlers.enter(*this, module, inputs);
        }
    }

    void OnForward(Function *function, const TensorList &inputs, const TensorList &outputs) {
        if (InBackwardPass() || !InScope() || !IsOperator(*function)) {
            return;
        }
        Call call{{}, -1};
        if (number_calls) {
            call.module = autograd::internal::CurrentModulePath();
        }
        if (number_calls || model != nullptr) {
            const std::lock_guard lock(mutex);
            if (number_calls) {
                call.number = calls[{call.module, function->type()}]++;
            }
            seen[function] = {function->sequence(), call.number};
        }
        if (handlers.forward) {
            handlers.forward(*this, function, call, inputs, outputs);
        }
    }

    void OnBackward(Function *function, const TensorList &grad_inputs, const TensorList &grad_outputs) {
        if (!IsOperator(*function)) {
            return;
        }
        Call call{{}, -1};
        if (number_calls || model != nullptr) {
            const std::lock_guard lock(mutex);
            const auto found = seen.find(function);
            const bool is_known = found != seen.end() && found->second.sequence == function->sequence();
            if (!is_known && model != nullptr) {
                return;
            }
            call.number = is_known ? found->second.number : -1;
        }
        if (number_calls) {
            call.module = function->module_path();
        }
        handlers.backward(*this, function, call, grad_inputs, grad_outputs);
    }

    std::unordered_map<const Tensor *, std::string> Names() const {
        std::vector<std::shared_ptr<nn::Module>> roots;
        if (model != nullptr) {
            roots.emplace_back(std::shared_ptr<void>(), model);
        } else {
            const std::lock_guard lock(mutex);
            for (const auto &known : models) {
                if (auto module = known.lock()) {
                    roots.push_back(std::move(module));
                }
            }
        }
        std::unordered_map<const Tensor *, std::string> names;
        for (const auto &root : roots) {
            for (const auto &tensors : {root->NamedParameters(), root->NamedBuffers()}) {
                for (const auto &[name, tensor] : tensors) {
                    names.emplace(tensor.get(), name);
                }
            }
        }
        return names;
    }

    NamedTensors ParametersOf(const Optimizer &optimizer) const {
        const auto names = Names();
        NamedTensors parameters;
        for (size_t i = 0; i < optimizer.params().size(); ++i) {
            const TensorPtr &parameter = optimizer.params()[i];
            const auto name = names.find(parameter.get());
            if (name != names.end()) {
                parameters.emplace_back(name->second, parameter);
            } else if (model == nullptr) {
                parameters.emplace_back(std::to_string(i), parameter);
            }
        }
        return parameters;
    }

    void NextStep() {
        steps.fetch_add(1);
        const std::lock_guard lock(mutex);
        calls.clear();
    }

    void OnStepped(Optimizer *optimizer) {
        const NamedTensors parameters = ParametersOf(*optimizer);
        if (parameters.empty()) {
            return;
        }
        // The step has been made even if the handler throws.
        struct Counting {
            Core *core;
            ~Counting() { core->NextStep(); }
        } counting{this};
        if (handlers.after_step) {
            handlers.after_step(*this, optimizer, parameters);
        }
    }
};

Observer::Observer(nn::Module *model, const char *name, bool number_calls, Handlers handlers)
    : core_(std::make_shared<Core>()) {
    core_->id = infini_train::internal::NextHookId();
    core_->model = model;
    core_->number_calls = number_calls;
    core_->handlers = std::move(handlers);
    const auto enter = [core = core_](nn::Module *module, const TensorList &inputs) { core->OnModule(module, inputs); };
    const auto leave = [core = core_](nn::Module *, const TensorList &, const TensorList &) { core->Leave(); };
    // Entered before anything else can throw, and left after everything else.
    const HookOptions first{.name = name, .prepend = true};
    const HookOptions last{.name = name, .always_call = true};
    if (model != nullptr) {
        hooks_.Add(model->RegisterForwardPreHook(enter, first));
        hooks_.Add(model->RegisterForwardPostHook(leave, last));
    } else {
        auto &modules = GlobalModuleHookRegistry::Instance();
        hooks_.Add(modules.RegisterModuleForwardPreHook(enter, first));
        hooks_.Add(modules.RegisterModuleForwardHook(leave, last));
    }
    auto &functions = GlobalFunctionHookRegistry::Instance();
    if (core_->handlers.forward || core_->handlers.backward) {
        // Backward needs what forward has seen.
        hooks_.Add(functions.RegisterFunctionForwardHook(
            [core = core_](Function *function, const TensorList &inputs, const TensorList &outputs) {
                core->OnForward(function, inputs, outputs);
            },
            {.name = name}));
    }
    if (core_->handlers.backward) {
        hooks_.Add(functions.RegisterFunctionBackwardHook(
            [core = core_](Function *function, const TensorList &grad_inputs, const TensorList &grad_outputs) {
                core->OnBackward(function, grad_inputs, grad_outputs);
            },
            {.name = name}));
    }
    if (core_->handlers.before_step) {
        hooks_.Add(GlobalOptimizerHooks().RegisterStepPreHook(
            [core = core_](Optimizer *optimizer) {
                const NamedTensors parameters = core->ParametersOf(*optimizer);
                if (!parameters.empty()) {
                    core->handlers.before_step(*core, optimizer, parameters);
                }
            },
            {.name = name}));
    }
    hooks_.Add(GlobalOptimizerHooks().RegisterStepPostHook(
        [core = core_](Optimizer *optimizer) { core->OnStepped(optimizer); }, {.name = name}));
}

Observer::~Observer() = default;

std::shared_ptr<const std::atomic<int64_t>> Observer::steps() const {
    return {core_, &core_->steps};
}
void Observer::NextStep() {
    core_->NextStep();
}

std::string ModuleOf(const autograd::Function &function) {
    return InBackwardPass() ? function.module_path() : autograd::internal::CurrentModulePath();
}

}  // namespace infini_train::utils
