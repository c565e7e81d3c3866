#include "infini_train/src/nn/backward_hook.h"

#include <utility>

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

TensorList Pick(const TensorList &all, const std::vector<size_t> &positions) {
    TensorList some;
    some.reserve(positions.size());
    for (const size_t position : positions) {
        some.push_back(all[position]);
    }
    return some;
}

// `some` at `positions` of a list of `size`, null elsewhere.
TensorList Spread(const TensorList &some, const std::vector<size_t> &positions, size_t size) {
    TensorList all(size);
    for (size_t i = 0; i < positions.size(); ++i) {
        all[positions[i]] = some[i];
    }
    return all;
}

std::vector<size_t> RequiringGrad(const TensorList &tensors) {
    std::vector<size_t> positions;
    for (size_t i = 0; i < tensors.size(); ++i) {
        if (tensors[i] != nullptr && tensors[i]->requires_grad()) {
            positions.push_back(i);
        }
    }
    return positions;
}

TensorList Aliases(const TensorList &tensors) {
    TensorList aliases;
    aliases.reserve(tensors.size());
    for (const auto &tensor : tensors) {
        aliases.push_back(autograd::Alias(*tensor));
    }
    return aliases;
}

TensorList Owned(const TensorList &gradients) {
    TensorList owned;
    owned.reserve(gradients.size());
    for (const auto &gradient : gradients) {
        owned.push_back(autograd::OwnForHook(gradient));
    }
    return owned;
}

}  // namespace

// What the two nodes share.
class BackwardHookCall::State : public autograd::NoteOwner, public std::enable_shared_from_this<State> {
public:
    State(Module *module, std::shared_ptr<Module> owner, std::weak_ptr<const bool> alive,
          std::shared_ptr<ModuleHooks> hooks)
        : module_(module), owner_(std::move(owner)), alive_(std::move(alive)), hooks_(std::move(hooks)) {}

    std::vector<size_t> input_positions, output_positions;
    size_t num_inputs = 0, num_outputs = 0;
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
            const TensorList grad_inputs = RunPost(TensorList(num_inputs));
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
            TensorList grad_inputs(num_inputs);
            RunPostHooks(grad_inputs, grad_outputs, &failure);
        } catch (...) {
            LogDropped("a backward post hook");
        }
    }

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
    std::string Name() const {
        const Module *alive = module();
        return alive == nullptr ? "a module that is gone" : alive->Describe();
    }

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
    TensorList Backward(const TensorList &grad_outputs) override {
        const auto state = state_;
        TensorList grads = Spread(Owned(grad_outputs), state->input_positions, state->num_inputs);
        return Pick(state->RunPost(std::move(grads)), state->input_positions);
    }

protected:
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
    TensorList Backward(const TensorList &grad_outputs) override {
        const auto state = state_;
        TensorList grads = Spread(Owned(grad_outputs), state->output_positions, state->num_outputs);
        return Pick(state->RunPre(std::move(grads)), state->output_positions);
    }

protected:
    bool OnGraphFreed() override { return std::exchange(state_, nullptr) != nullptr; }

private:
    std::shared_ptr<State> state_;
};

BackwardHookCall::BackwardHookCall(Module *module, std::shared_ptr<Module> owner, std::weak_ptr<const bool> alive,
                                   std::shared_ptr<ModuleHooks> hooks)
    : state_(std::make_shared<State>(module, std::move(owner), std::move(alive), std::move(hooks))) {}

BackwardHookCall::~BackwardHookCall() = default;

TensorList BackwardHookCall::WrapInputs(const TensorList &inputs) {
    state_->num_inputs = inputs.size();
    state_->input_positions = RequiringGrad(inputs);
    if (state_->input_positions.empty()) {
        return inputs;
    }
    const auto node = std::make_shared<InputNode>(state_);
    state_->input_node = node;
    const TensorList passed = node->Apply(Pick(inputs, state_->input_positions));
    TensorList result = inputs;
    for (size_t i = 0; i < passed.size(); ++i) {
        result[state_->input_positions[i]] = passed[i];
    }
    return result;
}

TensorList BackwardHookCall::WrapOutputs(const TensorList &outputs) {
    state_->num_outputs = outputs.size();
    state_->output_positions = RequiringGrad(outputs);
    if (state_->output_positions.empty()) {
        return outputs;
    }
    const TensorList passed = std::make_shared<OutputNode>(state_)->Apply(Pick(outputs, state_->output_positions));
    TensorList result = outputs;
    for (size_t i = 0; i < passed.size(); ++i) {
        result[state_->output_positions[i]] = passed[i];
    }
    return result;
}

}  // namespace infini_train::nn
