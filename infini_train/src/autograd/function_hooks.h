#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/common/hook.h"
#include "infini_train/include/tensor.h"

namespace infini_train::autograd {

// What is registered on one function and on its outputs.
struct Function::Hooks : FunctionHooks {
    // Of the outputs as tensors: their hooks, and who wants to keep the gradient.
    struct Output {
        HookList<TensorHook> tensor;
        std::weak_ptr<Tensor> retains_grad;
    };
    std::vector<std::unique_ptr<Output>> outputs;
    std::mutex mutex;  // guards `outputs`

    Output &MutableOutput(size_t idx) {
        std::lock_guard lock(mutex);
        if (outputs.size() <= idx) {
            outputs.resize(idx + 1);
        }
        if (outputs[idx] == nullptr) {
            outputs[idx] = std::make_unique<Output>();
        }
        return *outputs[idx];
    }
    Output *FindOutput(size_t idx) {
        std::lock_guard lock(mutex);
        return idx < outputs.size() ? outputs[idx].get() : nullptr;
    }
};

// Of all functions, by depth; null until somebody asks for them, never destroyed.
using GlobalHooks = std::array<FunctionHooks, 2>;
inline constinit std::atomic<GlobalHooks *> global_function_hooks{nullptr};

/// The same lists as GlobalFunctionHooks gives, or null if there are none yet.
inline const FunctionHooks *FindGlobalFunctionHooks(FunctionDepth depth = FunctionDepth::kOutermost) {
    const GlobalHooks *hooks = global_function_hooks.load(std::memory_order_acquire);
    return hooks == nullptr ? nullptr : &(*hooks)[static_cast<size_t>(depth)];
}
inline bool HaveGlobalForwardHooks() {
    const GlobalHooks *hooks = global_function_hooks.load(std::memory_order_acquire);
    return hooks != nullptr && ((*hooks)[0].HasForward() || (*hooks)[1].HasForward());
}
inline bool HaveGlobalBackwardHooks() {
    const FunctionHooks *hooks = FindGlobalFunctionHooks();
    return hooks != nullptr && hooks->HasBackward();
}

/// Whether this thread is inside of a function's Forward or Backward. What is applied there are the function's insides,
/// which global hooks don't see; code of users that runs there (a module's backward hooks, a recomputed forward) is
/// outside again.
class FunctionScope {
public:
    explicit FunctionScope(bool inside) : previous_(std::exchange(inside_, inside)) {}
    ~FunctionScope() { inside_ = previous_; }
    FunctionScope(const FunctionScope &) = delete;
    FunctionScope &operator=(const FunctionScope &) = delete;

    static bool IsInside() { return inside_; }

private:
    static inline thread_local bool inside_ = false;
    const bool previous_;
};

/// The autograd layer's way to a function's insides.
class FunctionAccess {
public:
    static Function::Hooks &MutableHooks(Function &function) { return function.MutableHooks(); }
    static Function::Hooks *FindHooks(const Function &function) {
        return function.hooks_.load(std::memory_order_acquire);
    }
    static std::vector<SavedTensor> &Saved(Function &function) { return function.ctx_.saved_; }
    static bool Freed(const Function &function) { return function.ctx_.freed_; }
    static uint32_t Application(const Function &function) { return function.application_; }
    static const auto &Output(const Function &function, int idx) {
        return function.output_info(static_cast<size_t>(idx));
    }
};

}  // namespace infini_train::autograd
