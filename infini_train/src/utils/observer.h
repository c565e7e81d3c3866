#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/common/hook.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/nn/modules/module.h"
#include "infini_train/include/optimizer.h"

namespace infini_train::utils {

using NamedTensors = std::vector<std::pair<std::string, TensorPtr>>;

/// Sees the operators of the whole program, or those that one model applies, forward and backward, and the steps of
/// the optimizers, until it is destroyed. Hooks of functions and modules alone, in whatever thread they run.
class Observer {
public:
    /// An application of a function.
    struct Call {
        std::string module;  ///< as Module::Describe names it; empty outside of any module
        int64_t number = 0;  ///< among those of the same type in the same module in this step, or -1 if not known
    };
    /// What handlers may ask.
    class Context {
    public:
        /// Counts from 0, after each step of an optimizer that changes an observed parameter, and by NextStep.
        virtual int64_t step() const = 0;
        /// The name of a parameter or buffer in the observed models; empty for any other tensor.
        virtual std::string NameOf(const Tensor *tensor) const = 0;

    protected:
        ~Context() = default;
    };
    /// They may still run in another thread for a moment when the observer is gone: they own what they use.
    struct Handlers {
        /// The function has run. Not what runs inside of a backward pass: that is a part of some function's backward.
        std::function<void(const Context &, autograd::Function *, const Call &, const TensorList &inputs,
                           const TensorList &outputs)>
            forward = {};
        /// Its backward has run.
        std::function<void(const Context &, autograd::Function *, const Call &, const TensorList &grad_inputs,
                           const TensorList &grad_outputs)>
            backward = {};
        /// A model is called, not by another module.
        std::function<void(const Context &, nn::Module *, const TensorList &inputs)> enter = {};
        /// Before and after an optimizer's step, with the parameters that are observed.
        std::function<void(const Context &, Optimizer *, const NamedTensors &)> before_step = {};
        std::function<void(const Context &, Optimizer *, const NamedTensors &)> after_step = {};
    };

    /// `model` is null for the whole program, else it has to outlive the observer. `number_calls` fills in Call, which
    /// costs as much as a small operator; without it ModuleOf tells the module. `name` is that of the hooks.
    Observer(nn::Module *model, const char *name, bool number_calls, Handlers handlers);
    ~Observer();
    Observer(const Observer &) = delete;
    Observer &operator=(const Observer &) = delete;

    int64_t step() const { return steps()->load(); }
    void NextStep();
    /// What step() reads, for hooks that outlive the observer.
    std::shared_ptr<const std::atomic<int64_t>> steps() const;

private:
    struct Core;
    std::shared_ptr<Core> core_;
    HookGroup hooks_;
};

/// The module that a function is running in (forward) or was applied in (backward).
std::string ModuleOf(const autograd::Function &function);

}  // namespace infini_train::utils
