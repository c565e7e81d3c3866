#pragma once

#include <memory>

#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/nn/module_hook.h"

namespace infini_train::nn {

/// One call of a module that has backward hooks. Its inputs pass through one identity node and its outputs through
/// another; what passes has the same memory.
class BackwardHookCall {
public:
    /// `owner` may be null; then `module` is passed to hooks only as long as `alive` hasn't expired.
    BackwardHookCall(Module *module, std::shared_ptr<Module> owner, std::weak_ptr<const bool> alive,
                     std::shared_ptr<ModuleHooks> hooks);
    ~BackwardHookCall();

    /// The inputs as Forward is to see them.
    TensorList WrapInputs(const TensorList &inputs);
    /// The outputs as the caller is to see them.
    TensorList WrapOutputs(const TensorList &outputs);

private:
    class State;
    class InputNode;
    class OutputNode;

    std::shared_ptr<State> state_;
};

}  // namespace infini_train::nn
