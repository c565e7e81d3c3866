#include "infini_train/src/nn/backward_hook.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "infini_train/include/autograd/function.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/nn/modules/module.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/function_hooks.h"
#include "infini_train/src/autograd/graph_task.h"
#include "infini_train/src/autograd/hook_runner.h"
#include "infini_train/src/autograd/meta.h"
#include "infini_train/src/common/format.h"

namespace infini_train::nn {

using autograd::GraphTask;
using autograd::HookRunner;

namespace {

bool TakesGrad(const TensorPtr &tensor) {
    return tensor != nullptr && tensor->requires_grad();
}

// Which tensors of a list require a gradient and so pass through a node. Mostly all of them do; then lists are handed
// on as they are.
class Passing {
public:
    void Set(const TensorList &tensors) {
        size_ = tensors.size();
        all_ = std::all_of(tensors.begin(), tensors.end(), TakesGrad);
        for (size_t i = 0; i < size_ && !all_; ++i) {
            if (TakesGrad(tensors[i])) {
                positions_.push_back(i);
            }
        }
    }
    bool none() const { return all_ ? size_ == 0 : positions_.empty(); }
    /// Of the whole list.
    size_t size() const { return size_; }

    TensorList Pick(TensorList all) const {
        if (all_) {
            return all;
        }
        TensorList some;
        for (const size_t position : positions_) {
            some.push_back(std::move(all[position]));
        }
        return some;
    }
    /// Puts `some` in their places of a list of all, null elsewhere.
    TensorList Spread(TensorList some) const {
        return all_ ? std::move(some) : Insert(std::move(some), TensorList(size_));
    }
    /// Puts `some` in their places of `all`.
    TensorList Insert(TensorList some, TensorList all) const {
        for (size_t i = 0; i < positions_.size(); ++i) {
            all[positions_[i]] = std::move(some[i]);
        }
        return all;
    }
    /// `all` after those that pass have passed through `node`.
    TensorList Through(autograd::Function &node, const TensorList &all) const {
        return all_ ? node.Apply(all) : Insert(node.Apply(Pick(all)), all);
    }

private:
    bool all_ = true;
    size_t size_ = 0;
    std::vector<size_t> positions_;  // unless all
};

TensorList Aliases(const TensorList &tensors) {
    TensorList aliases;
    aliases.reserve(tensors.size());
    for (const auto &tensor : tensors) {
        aliases.push_back(autograd::Alias(*tensor));
    }
    return aliases;
}

}  // namespace

// What the two nodes share.
class BackwardHookCall::State : public autograd::NoteOwner, public std::enable_shared_from_this<State> {
public:
    State(Module *module, std::shared_ptr<Module> owner, std::weak_ptr<const bool> alive,
          std::shared_ptr<ModuleHooks> hooks)
        : module_(module), owner_(std::move(owner)), alive_(std::move(alive)), hooks_(std::move(hooks)) {}

    Passing inputs, outputs;
    std::weak_ptr<autograd::Function> input_node;

    /// The hooked gradients of the outputs, remembered in the pass for the backward post hooks.
    TensorList RunPre(TensorList grad_outputs) {
        const autograd::FunctionScope outside(/*inside=*/false);
        GraphTask &task = *GraphTask::Current();
        const HookRunner runner(
            "backward", [this] { return Name(); }, task.last_hook_id());
        try {
            for (const ModuleHooks *hooks : layers()) {
                runner.RunPre(hooks->backward_pre, grad_outputs, /*gradients=*/true, module());
            }
        } catch (...) {
            PassFailed(grad_outputs, std::current_exception());
            throw;
        }
        task.Leave(shared_from_this(), grad_outputs);
        const auto input = input_node.lock();
        if (input == nullptr || !task.Runs(*input)) {
            // No gradient will come out of the module in this pass; its hooks run all the same, so that they are
            // paired.
            const TensorList grad_inputs = RunPost(TensorList(inputs.size()));
            for (const auto &grad_input : grad_inputs) {
                if (grad_input != nullptr) {
                    Throw<AutogradError>(
                        "backward post hook of {}: it gave a gradient for an input that no gradient goes to", Name());
                }
            }
        }
        return grad_outputs;
    }

    /// The hooked gradients of the inputs. Nothing happens if this pass hasn't come through the outputs: gradients can
    /// reach the inputs of a module from its insides alone, when a second derivative is computed.
    TensorList RunPost(TensorList grad_inputs) {
        GraphTask &task = *GraphTask::Current();
        const auto note = task.Take(this);
        if (!note) {
            return grad_inputs;
        }
        std::exception_ptr failure;
        RunPostHooks(grad_inputs, *note, &failure);
        if (failure != nullptr) {
            std::rethrow_exception(failure);
        }
        return grad_inputs;
    }

    void PassFailed(const TensorList &grad_outputs, std::exception_ptr failure) noexcept override {
        try {
            TensorList grad_inputs(inputs.size());
            RunPostHooks(grad_inputs, grad_outputs, &failure);
        } catch (...) {
            LogDropped("a backward post hook");
        }
    }

    std::string Name() const {
        const Module *alive = module();
        return alive == nullptr ? "a module that is gone" : alive->Describe();
    }
    std::shared_ptr<const ModuleHooks> hooks() const { return hooks_; }

private:
    autograd::HookLayers<ModuleHooks> layers() const { return {&GlobalModuleHooks(), hooks_.get()}; }

    void RunPostHooks(TensorList &grad_inputs, const TensorList &grad_outputs, std::exception_ptr *failure) const {
        const autograd::FunctionScope outside(/*inside=*/false);
        const HookRunner runner(
            "backward", [this] { return Name(); }, GraphTask::Current()->last_hook_id());
        for (const ModuleHooks *hooks : layers()) {
            runner.RunPost(hooks->backward_post, grad_inputs, /*gradients=*/true, failure, module(), grad_inputs,
                           grad_outputs);
        }
    }

    Module *module() const { return owner_ != nullptr || !alive_.expired() ? module_ : nullptr; }

    Module *const module_;
    const std::shared_ptr<Module> owner_;
    const std::weak_ptr<const bool> alive_;
    const std::shared_ptr<ModuleHooks> hooks_;
};

// The identity that a module's inputs pass through; in the backward pass the last of the module's nodes.
class BackwardHookCall::InputNode : public autograd::Function {
public:
    explicit InputNode(std::shared_ptr<State> state) : Function("ModuleInput"), state_(std::move(state)) {
        ctx_.set_materialize_grads(false);
    }
    TensorList Forward(const TensorList &inputs) override { return Aliases(inputs); }
    TensorList Backward(const TensorList &grad_outputs) override { return TakeBackward(TensorList(grad_outputs)); }
    const State *state() const { return state_.get(); }

protected:
    TensorList TakeBackward(TensorList &&grad_outputs) override {
        const auto state = state_;
        autograd::OwnForHooks(&grad_outputs);
        return state->inputs.Pick(state->RunPost(state->inputs.Spread(std::move(grad_outputs))));
    }
    bool OnGraphFreed() override { return std::exchange(state_, nullptr) != nullptr; }

private:
    std::shared_ptr<State> state_;
};

// The identity that its outputs pass through.
class BackwardHookCall::OutputNode : public autograd::Function {
public:
    explicit OutputNode(std::shared_ptr<State> state) : Function("ModuleOutput"), state_(std::move(state)) {
        ctx_.set_materialize_grads(false);
    }
    TensorList Forward(const TensorList &inputs) override { return Aliases(inputs); }
    TensorList Backward(const TensorList &grad_outputs) override { return TakeBackward(TensorList(grad_outputs)); }
    const State *state() const { return state_.get(); }

protected:
    TensorList TakeBackward(TensorList &&grad_outputs) override {
        const auto state = state_;
        autograd::OwnForHooks(&grad_outputs);
        return state->outputs.Pick(state->RunPre(state->outputs.Spread(std::move(grad_outputs))));
    }
    bool OnGraphFreed() override { return std::exchange(state_, nullptr) != nullptr; }

private:
    std::shared_ptr<State> state_;
};

BackwardHookCall::BackwardHookCall(Module *module, std::shared_ptr<Module> owner, std::weak_ptr<const bool> alive,
                                   std::shared_ptr<ModuleHooks> hooks)
    : state_(std::make_shared<State>(module, std::move(owner), std::move(alive), std::move(hooks))) {}

BackwardHookCall::~BackwardHookCall() = default;

TensorList BackwardHookCall::WrapInputs(const TensorList &inputs) {
    state_->inputs.Set(inputs);
    if (state_->inputs.none()) {
        return inputs;
    }
    const auto node = std::make_shared<InputNode>(state_);
    state_->input_node = node;
    return state_->inputs.Through(*node, inputs);
}

TensorList BackwardHookCall::WrapOutputs(const TensorList &outputs) {
    state_->outputs.Set(outputs);
    return state_->outputs.none() ? outputs : state_->outputs.Through(*std::make_shared<OutputNode>(state_), outputs);
}

std::optional<BackwardHookNode> AsBackwardHookNode(const autograd::Function &function) {
    const auto *input = dynamic_cast<const BackwardHookCall::InputNode *>(&function);
    const auto *output = dynamic_cast<const BackwardHookCall::OutputNode *>(&function);
    const auto *state = input != nullptr ? input->state() : output != nullptr ? output->state() : nullptr;
    if (state == nullptr) {
        return std::nullopt;
    }
    return BackwardHookNode{output != nullptr, state->hooks(), state->Name()};
}

}  // namespace infini_train::nn
