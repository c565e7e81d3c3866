#include "infini_train/include/nn/modules/module.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>
#include <unordered_set>

#include "infini_train/include/autograd/anomaly_mode.h"
#include "infini_train/include/autograd/function.h"
#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/hook_runner.h"
#include "infini_train/src/common/annotate.h"
#include "infini_train/src/common/format.h"
#include "infini_train/src/nn/backward_hook.h"

namespace infini_train::nn {
namespace {

using autograd::HookRunner;

thread_local const Module *current_module = nullptr;

// Makes a module the one that the thread is in.
class CurrentModule {
public:
    explicit CurrentModule(const Module *module) : previous_(current_module) { current_module = module; }
    ~CurrentModule() { current_module = previous_; }
    CurrentModule(const CurrentModule &) = delete;
    CurrentModule &operator=(const CurrentModule &) = delete;

private:
    const Module *const previous_;
};

std::string CurrentPath() {
    return current_module != nullptr ? current_module->Describe() : std::string();
}

[[maybe_unused]] const bool path_provider_set = [] {
    autograd::internal::SetModulePathProvider(&CurrentPath);
    return true;
}();

// The innermost module names itself; those around it would only repeat a part of its path.
bool HasModuleContext(const std::exception &error) {
    return std::strstr(error.what(), "[in module ") != nullptr;
}

std::string Join(const std::string &prefix, const std::string &name) {
    return prefix.empty() ? name : prefix + "." + name;
}

template <typename T>
T *Find(std::vector<std::pair<std::string, T>> &entries, const std::string &name) {
    const auto found = std::find_if(entries.begin(), entries.end(), [&](auto &entry) { return entry.first == name; });
    return found == entries.end() ? nullptr : &found->second;
}

template <typename T>
std::string Names(const std::vector<std::pair<std::string, T>> &entries) {
    std::string names;
    for (const auto &entry : entries) {
        names += (names.empty() ? "" : ", ") + entry.first;
    }
    return names.empty() ? "none" : names;
}

}  // namespace

ModuleHooks &GlobalModuleHooks() {
    static auto *hooks = new ModuleHooks;  // never destroyed: modules may outlive static objects
    return *hooks;
}

Module::Module(const std::string &type) : type_(type), hooks_(std::make_shared<ModuleHooks>()) {}

Module::~Module() {
    for (const auto &[name, child] : children_) {
        if (child->parent_ == this) {
            child->parent_ = nullptr;
        }
    }
}

std::string Module::path() const {
    std::string path;
    for (const Module *module = this; module->parent_ != nullptr; module = module->parent_) {
        for (const auto &[name, child] : module->parent_->children_) {
            if (child.get() == module) {
                path = path.empty() ? name : name + "." + path;
                break;
            }
        }
    }
    return path;
}

std::string Module::Describe() const {
    const std::string where = path();
    return where.empty() ? type_ : where + " (" + type_ + ")";
}

TensorList Module::operator()(const TensorList &inputs) {
    const CurrentModule current(this);
    const auto describe = [this] { return "in module " + Describe(); };
    try {
        return hooks_->HasAny() || GlobalModuleHooks().HasAny() ? CallHooked(inputs) : Forward(inputs);
    } catch (Error &error) {
        if (!HasModuleContext(error)) {
            error.AddContext(describe());
        }
        throw;
    } catch (const std::exception &error) {
        if (HasModuleContext(error)) {
            throw;
        }
        RethrowAnnotated(describe());
    }
}

TensorList Module::CallHooked(const TensorList &inputs) {
    const autograd::HookLayers<ModuleHooks> layers(&GlobalModuleHooks(), hooks_.get());
    const HookRunner runner(
        "forward", [this] { return Describe(); }, infini_train::internal::LatestHookId());
    TellWatchers();
    const TensorList *current = &inputs;
    TensorList replaced;  // where hooks put something else in the inputs' place
    std::optional<BackwardHookCall> backward;
    std::exception_ptr failure;
    const auto forward = [&]() -> TensorList {
        for (const ModuleHooks *hooks : layers) {
            if (!hooks->forward_pre.empty()) {
                replaced = *current;
                current = &replaced;
                runner.RunPre(hooks->forward_pre, replaced, /*gradients=*/false, this);
            }
        }
        if (autograd::GradMode::IsEnabled() && (GlobalModuleHooks().HasBackward() || hooks_->HasBackward())) {
            auto owner = weak_from_this().lock();
            const bool owned = owner != nullptr;
            backward.emplace(this, std::move(owner), owned ? std::weak_ptr<const bool>() : alive_, hooks_);
            replaced = backward->WrapInputs(*current);
            current = &replaced;
        }
        return Forward(*current);
    };
    TensorList outputs = autograd::CatchInto(&failure, forward);
    for (const ModuleHooks *hooks : layers) {
        runner.RunPost(hooks->forward_post, outputs, /*gradients=*/false, &failure, this, *current, outputs);
    }
    if (failure != nullptr) {
        std::rethrow_exception(failure);
    }
    if (backward) {
        return backward->WrapOutputs(outputs);
    }
    return outputs;
}

TensorList Module::Parameters() const {
    TensorList result;
    for (auto &[name, parameter] : NamedParameters()) {
        result.push_back(std::move(parameter));
    }
    return result;
}

TensorList Module::Buffers() const {
    TensorList result;
    for (auto &[name, buffer] : NamedBuffers()) {
        result.push_back(std::move(buffer));
    }
    return result;
}

void Module::Visit(const std::string &prefix, const std::function<void(const std::string &, Module &)> &fn) {
    std::unordered_set<const Module *> seen;
    const auto visit = [&](const auto &self, const std::string &name, Module &module) -> void {
        if (!seen.insert(&module).second) {
            return;
        }
        fn(name, module);
        for (const auto &[child_name, child] : module.children_) {
            self(self, Join(name, child_name), *child);
        }
    };
    visit(visit, prefix, *this);
}

std::vector<std::pair<std::string, TensorPtr>> Module::NamedParameters(const std::string &prefix) const {
    std::vector<std::pair<std::string, TensorPtr>> result;
    std::unordered_set<const Tensor *> seen;
    const_cast<Module *>(this)->Visit(prefix, [&](const std::string &path, Module &module) {
        for (const auto &[name, parameter] : module.parameters_) {
            if (parameter != nullptr && seen.insert(parameter.get()).second) {
                result.emplace_back(Join(path, name), parameter);
            }
        }
    });
    return result;
}

std::vector<std::pair<std::string, TensorPtr>> Module::NamedBuffers(const std::string &prefix) const {
    std::vector<std::pair<std::string, TensorPtr>> result;
    std::unordered_set<const Tensor *> seen;
    const_cast<Module *>(this)->Visit(prefix, [&](const std::string &path, Module &module) {
        for (const auto &[name, buffer] : module.buffers_) {
            if (seen.insert(buffer.tensor.get()).second) {
                result.emplace_back(Join(path, name), buffer.tensor);
            }
        }
    });
    return result;
}

std::vector<std::pair<std::string, std::shared_ptr<Module>>> Module::NamedModules(const std::string &prefix) {
    std::vector<std::pair<std::string, std::shared_ptr<Module>>> result;
    Visit(prefix, [&](const std::string &path, Module &module) {
        auto shared = module.weak_from_this().lock();
        // A module that no shared pointer owns is handed out without ownership.
        result.emplace_back(path,
                            shared != nullptr ? shared : std::shared_ptr<Module>(std::shared_ptr<void>(), &module));
    });
    return result;
}

std::vector<std::pair<std::string, std::shared_ptr<Module>>> Module::NamedChildren() const {
    return children_;
}

const TensorPtr &Module::parameter(const std::string &name) const {
    return *const_cast<Module *>(this)->mutable_parameter(name);
}

TensorPtr *Module::mutable_parameter(const std::string &name) {
    TensorPtr *found = Find(parameters_, name);
    if (found == nullptr) {
        Throw<IndexError>("{}: no parameter '{}'; there are: {}", Describe(), name, Names(parameters_));
    }
    return found;
}

bool Module::has_parameter(const std::string &name) const {
    const TensorPtr *found = Find(const_cast<Module *>(this)->parameters_, name);
    return found != nullptr && *found != nullptr;
}

const TensorPtr &Module::buffer(const std::string &name) const {
    const Buffer *found = Find(const_cast<Module *>(this)->buffers_, name);
    if (found == nullptr) {
        Throw<IndexError>("{}: no buffer '{}'; there are: {}", Describe(), name, Names(buffers_));
    }
    return found->tensor;
}

std::shared_ptr<Module> Module::module(const std::string &path) const {
    const size_t dot = path.find('.');
    const auto *child = Find(const_cast<Module *>(this)->children_, path.substr(0, dot));
    if (child == nullptr) {
        Throw<IndexError>("{}: no module '{}'; there are: {}", Describe(), path.substr(0, dot), Names(children_));
    }
    return dot == std::string::npos ? *child : (*child)->module(path.substr(dot + 1));
}

void Module::Train(bool training) {
    Visit("", [&](const std::string &, Module &module) { module.training_ = training; });
}

void Module::ZeroGrad(bool set_to_none) {
    for (const auto &parameter : Parameters()) {
        parameter->ZeroGrad(set_to_none);
    }
}

void Module::RequiresGrad(bool requires_grad) {
    for (const auto &parameter : Parameters()) {
        parameter->set_requires_grad(requires_grad);
    }
}

void Module::To(Device device) {
    for (const TensorList &tensors : {Parameters(), Buffers()}) {
        for (const auto &tensor : tensors) {
            tensor->SetData(tensor->Detach()->To(device));
        }
    }
}

void Module::To(DataType dtype) {
    if (!IsFloatingPoint(dtype)) {
        Throw<DtypeError>("Module::To: expected a floating-point type, got {}", infini_train::ToString(dtype));
    }
    for (const TensorList &tensors : {Parameters(), Buffers()}) {
        for (const auto &tensor : tensors) {
            if (IsFloatingPoint(tensor->Dtype())) {
                tensor->SetData(tensor->Detach()->To(dtype));
            }
        }
    }
}

void Module::Apply(const std::function<void(Module *)> &fn) {
    for (const auto &[name, child] : children_) {
        child->Apply(fn);
    }
    fn(this);
}

}  // namespace infini_train::nn
