#pragma once

#include <functional>

#include "infini_train/include/common/hook.h"
#include "infini_train/include/common/tensor_fwd.h"

namespace infini_train::autograd {

class Function;

/// Forward: the inputs. Backward: the gradients of the outputs, null where none arrived.
using FunctionPreHook = std::function<void(Function *, const TensorList &)>;
/// Forward: inputs and outputs. Backward: the gradients of the inputs and of the outputs.
using FunctionPostHook = std::function<void(Function *, const TensorList &, const TensorList &)>;

// As they are stored: what a hook returns replaces the first list (pre hooks), the outputs (forward post hooks) or the
// gradients of the inputs (backward post hooks).
using FunctionPreHookFn = std::function<HookResult(Function *, const TensorList &)>;
using FunctionPostHookFn = std::function<HookResult(Function *, const TensorList &, const TensorList &)>;

}  // namespace infini_train::autograd
