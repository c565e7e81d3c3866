#include <memory>
#include <unordered_map>

#include "infini_train/include/nn/modules/module.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/common/format.h"

namespace infini_train::nn {
namespace {

// What the Clone at work has copied so far: a module that is registered several times is copied once.
using Clones = std::unordered_map<const Module *, std::shared_ptr<Module>>;
thread_local Clones *current_clones = nullptr;

class CloneScope {
public:
    CloneScope() : previous_(current_clones) { current_clones = &clones_; }
    ~CloneScope() { current_clones = previous_; }
    CloneScope(const CloneScope &) = delete;
    CloneScope &operator=(const CloneScope &) = delete;

private:
    Clones clones_;
    Clones *const previous_;
};

}  // namespace

Module::Module(const Module &other)
    : std::enable_shared_from_this<Module>(),
      type_(other.type_),
      training_(other.training_),
      parameters_(other.parameters_),
      buffers_(other.buffers_),
      hooks_(std::make_shared<ModuleHooks>(*other.hooks_)) {
    // Tensors are replaced by copies of their own in Clone, which knows what is shared.
    for (const auto &[name, child] : other.children_) {
        if (current_clones == nullptr) {
            Adopt(name, child->CloneImpl());
            continue;
        }
        auto found = current_clones->find(child.get());
        if (found == current_clones->end()) {
            found = current_clones->emplace(child.get(), child->CloneImpl()).first;
        }
        Adopt(name, found->second);
    }
}

std::shared_ptr<Module> Module::CloneImpl() const {
    Throw<NotImplementedError>("{}: this class can't be cloned; derive it from CloneableModule or override CloneImpl",
                               Describe());
}

std::shared_ptr<Module> Module::Clone() const {
    const CloneScope scope;
    const auto copy = CloneImpl();
    std::unordered_map<const Tensor *, TensorPtr> copies;
    const auto copy_of = [&](const TensorPtr &tensor) -> TensorPtr {
        if (tensor == nullptr) {
            return nullptr;
        }
        TensorPtr &made = copies[tensor.get()];
        if (made == nullptr) {
            made = tensor->Detach()->Clone();
            made->set_requires_grad(tensor->requires_grad());
        }
        return made;
    };
    copy->Visit("", [&](const std::string &, Module &module) {
        for (auto &[name, parameter] : module.parameters_) {
            parameter = copy_of(parameter);
        }
        for (auto &[name, buffer] : module.buffers_) {
            buffer.tensor = copy_of(buffer.tensor);
        }
    });
    copy->Visit("", [](const std::string &, Module &module) {
        const PostAccumulateHooks *hooks = module.hooks_->post_accumulate.Find();
        if (hooks != nullptr && !hooks->hooks.empty()) {
            module.WatchParameters();
        }
    });
    return copy;
}

}  // namespace infini_train::nn
