#pragma once

#include <memory>
#include <optional>
#include <string>

#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/nn/module_hook.h"

namespace infini_train::autograd {
class Function;
}  // namespace infini_train::autograd

namespace infini_train::nn {

/// What tools can tell of a node that runs a module's backward hooks.
struct BackwardHookNode {
    bool is_output;  ///< the outputs' node runs the backward pre hooks, the inputs' node the backward post hooks
    std::shared_ptr<const ModuleHooks> hooks;
    std::string module;  ///< as Module::Describe
};
/// Nothing for any other function, and once the graph was freed.
std::optional<BackwardHookNode> AsBackwardHookNode(const autograd::Function &function);

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
    friend std::optional<BackwardHookNode> AsBackwardHookNode(const autograd::Function &function);

    class State;
    class InputNode;
    class OutputNode;

    std::shared_ptr<State> state_;
};

}  // namespace infini_train::nn
