#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "infini_train/include/autograd/function_hook.h"
#include "infini_train/include/autograd/saved_tensor.h"
#include "infini_train/include/common/export.h"
#include "infini_train/include/common/hook.h"
#include "infini_train/include/common/short_list.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/core/stream.h"
#include "infini_train/include/core/tensor_layout.h"
#include "infini_train/include/datatype.h"
#include "infini_train/include/device.h"

namespace infini_train::autograd {

class Function;
class GraphTask;

/// What a function keeps from its forward for its backward pass. Used in SetupContext and Backward.
class INFINI_TRAIN_EXPORT FunctionCtx {
public:
    /// Keeps inputs, outputs or other tensors (null is fine). Replaces what was saved before.
    void SaveForBackward(const TensorList &tensors);
    /// The same tensors again. Throws AutogradError if one was changed in place since, or if the graph was freed.
    TensorList GetSavedTensors() const;
    /// These outputs get no gradient.
    void MarkNonDifferentiable(const TensorList &outputs);
    /// Whether Backward needs to give the gradient of the i-th input; if not, it may leave it null.
    bool needs_input_grad(size_t i) const { return i >= 64 || (unneeded_input_grads_ >> i & 1U) == 0; }
    /// Whether Backward gets zeros for the gradients of outputs that nothing used (the default) and isn't called when
    /// there are no gradients at all, or gets null and is always called.
    void set_materialize_grads(bool materialize) { materialize_grads_ = materialize; }

private:
    friend class Function;
    friend class FunctionAccess;
    friend class GraphTask;

    const Function *owner_ = nullptr;
    const TensorList *outputs_ = nullptr;  // during SetupContext
    std::vector<SavedTensor> saved_;
    uint64_t unneeded_input_grads_ = 0;  // a bit for each of the first 64 inputs
    std::vector<const void *> non_differentiable_;
    bool materialize_grads_ = true;
    bool packs_ = true;  // whether what is saved goes through the guard in force: not if the function isn't recorded
    bool freed_ = false;
};

/// Where a gradient goes: the function and which of its outputs.
struct Edge {
    std::shared_ptr<Function> function;
    int output_idx = 0;
    uint32_t application = 0;  ///< which Apply of the function made that output
};

/// An operator together with its derivative; once applied, a node of the graph. To write one, override Forward and
/// Backward, and SetupContext to keep what Backward needs:
///
///     class Cube : public autograd::Function {
///     public:
///         Cube() : Function("Cube") {}
///         TensorList Forward(const TensorList &inputs) override { return {inputs[0]->Pow(3)}; }
///         void SetupContext(const TensorList &inputs, const TensorList &) override { ctx_.SaveForBackward(inputs); }
///         TensorList Backward(const TensorList &grad_outputs) override {
///             const auto x = ctx_.GetSavedTensors()[0];
///             return {grad_outputs[0]->Mul(x->Square())->Mul(3)};
///         }
///     };
///     auto y = std::make_shared<Cube>()->Apply({x})[0];
///
/// Forward runs unrecorded. Backward is recorded if a second derivative was asked for, so made of operators of tensors
/// it can be differentiated itself. Functions are made with std::make_shared, one for each Apply: applying one again is
/// allowed, but its earlier outputs then can't be differentiated any more (AutogradError).
class INFINI_TRAIN_EXPORT Function : public std::enable_shared_from_this<Function> {
public:
    using FunctionPreHook = autograd::FunctionPreHook;
    using FunctionPostHook = autograd::FunctionPostHook;
    template <typename HookType>
    using FunctionHookHandleImpl = infini_train::HookHandleImpl<HookType>;

    static constexpr char kUndefinedType[] = "Undefined";

    Function() : Function(kUndefinedType) {}
    explicit Function(std::string type);
    virtual ~Function();
    Function(const Function &) = delete;
    Function &operator=(const Function &) = delete;

    virtual TensorList Forward(const TensorList &inputs) = 0;
    /// Called after Forward, if gradients are enabled. Not recorded.
    virtual void SetupContext(const TensorList & /*inputs*/, const TensorList & /*outputs*/) {}
    /// The gradients of the inputs, one for each (null for none), from those of the outputs.
    virtual TensorList Backward(const TensorList &grad_outputs) = 0;

    /// Runs the forward hooks and Forward; records the function if gradients are enabled and an input requires one.
    TensorList Apply(const TensorList &inputs);

    /// Hands over the gradient of output `idx` (null: none). Called by a backward pass once for each edge that leads
    /// here; when all have come, the node is due: backward pre hooks, Backward, backward post hooks. Called outside of
    /// a pass, it begins one from that output.
    virtual void BackwardPartial(const TensorPtr &grad_output, int idx);

    /// `hook(function, inputs)`; a list that it returns replaces the inputs.
    template <typename F>
    std::shared_ptr<HookHandle> RegisterForwardPreHook(F &&hook, const HookOptions &options = {}) {
        return AddHook(kForwardPre, internal::MakeFunctionPreHook(std::forward<F>(hook)), options);
    }
    /// `hook(function, inputs, outputs)`; a list that it returns replaces the outputs. With `always_call` it runs even
    /// if Forward or a hook before it threw.
    template <typename F>
    std::shared_ptr<HookHandle> RegisterForwardPostHook(F &&hook, const HookOptions &options = {}) {
        return AddHook(kForwardPost, internal::MakeFunctionPostHook(std::forward<F>(hook)), options);
    }
    /// `hook(function, grad_outputs)`; a list that it returns replaces them.
    template <typename F>
    std::shared_ptr<HookHandle> RegisterBackwardPreHook(F &&hook, const HookOptions &options = {}) {
        return AddHook(kBackwardPre, internal::MakeFunctionPreHook(std::forward<F>(hook)), options);
    }
    /// `hook(function, grad_inputs, grad_outputs)`; a list that it returns replaces grad_inputs. With `always_call` it
    /// runs even if Backward or a hook before it threw.
    template <typename F>
    std::shared_ptr<HookHandle> RegisterBackwardPostHook(F &&hook, const HookOptions &options = {}) {
        return AddHook(kBackwardPost, internal::MakeFunctionPostHook(std::forward<F>(hook)), options);
    }

    const std::string &type() const { return type_; }
    /// Where the gradients of the inputs go: one edge an input, without a function where the input needs none.
    std::span<const Edge> next_edges() const { return next_edges_; }
    size_t num_outputs() const { return outputs_.size(); }
    /// Grows with every Apply in a thread; of the nodes that are due, a backward pass runs the latest first.
    uint64_t sequence() const { return sequence_; }
    /// The module in whose Forward it was applied, as Module::Describe names it; known only of functions that are
    /// recorded in anomaly mode or while there are hooks for all functions.
    const std::string &module_path() const { return module_path_; }

protected:
    /// Called when a backward pass that doesn't retain the graph is done with the function, once what ctx_ had saved is
    /// gone. A function that keeps more than that lets go of it here, and returns true if it can't run again.
    virtual bool OnGraphFreed() { return false; }
    /// Backward as a pass calls it when nobody needs the list afterwards: who hands gradients on may hand on the list.
    virtual TensorList TakeBackward(TensorList &&grad_outputs) { return Backward(grad_outputs); }

    FunctionCtx ctx_;

private:
    friend class GraphTask;
    friend class FunctionAccess;
    friend class AccumulateGrad;

    struct Hooks;  // all lists of hooks; made with the first one
    enum HookPoint { kForwardPre, kForwardPost, kBackwardPre, kBackwardPost };
    // What a gradient of an output must look like.
    struct OutputInfo {
        infini_train::internal::TensorLayoutPtr layout;  // never null
        DataType dtype = DataType::kFLOAT32;
        Device device;
    };

    std::shared_ptr<HookHandle> AddHook(HookPoint point, FunctionPreHookFn hook, const HookOptions &options);
    std::shared_ptr<HookHandle> AddHook(HookPoint point, FunctionPostHookFn hook, const HookOptions &options);

    TensorList Run(const TensorList &inputs);
    TensorList ApplyHooked(const TensorList &inputs);
    TensorList RunForward(const TensorList &inputs);
    void Record(const TensorList &inputs, TensorList *outputs);
    void Connect(const TensorList &inputs, const TensorList &outputs);
    Hooks &MutableHooks();
    const OutputInfo &output_info(size_t idx) const { return outputs_[idx]; }

    const std::string type_;
    infini_train::internal::ShortList<Edge> next_edges_;
    infini_train::internal::ShortList<OutputInfo> outputs_;
    std::atomic<Hooks *> hooks_{nullptr};  // owned
    uint64_t sequence_ = 0;
    uint32_t application_ = 0;
    bool is_accumulator_ = false;
    Stream stream_;  // on which it was applied; the CPU's if it has nothing to do with another device
    std::string module_path_;
};

/// The parts of next_edges that lead somewhere, InfiniTrain's way to walk the graph.
INFINI_TRAIN_EXPORT std::vector<std::pair<std::shared_ptr<Function>, int>> NextFunctions(const Function &function);

}  // namespace infini_train::autograd
