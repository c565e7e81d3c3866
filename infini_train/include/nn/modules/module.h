#pragma once

#include <cstddef>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/hook.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/datatype.h"
#include "infini_train/include/device.h"
#include "infini_train/include/nn/module_hook.h"
#include "infini_train/include/nn/state_dict.h"
#include "infini_train/include/tensor.h"

namespace infini_train::nn {

/// A piece of a network: parameters, buffers, child modules and a Forward. Registered under names, in order:
///
///     class Net : public nn::Module {
///     public:
///         Net() : Module("Net") { fc_ = RegisterModule("fc", std::make_shared<nn::Linear>(784, 10)); }
///         TensorList Forward(const TensorList &inputs) override { return (*fc_)({inputs[0]->Flatten(1)}); }
///     private:
///         std::shared_ptr<nn::Linear> fc_;
///     };
///     auto net = std::make_shared<Net>();
///     auto logits = (*net)({images})[0];
///
/// Call a module as `(*module)(inputs)`: that runs the hooks. Calling Forward directly runs none. An error inside
/// carries the module's path.
class INFINI_TRAIN_EXPORT Module : public std::enable_shared_from_this<Module> {
public:
    static constexpr char kUndefinedType[] = "Undefined";

    Module() : Module(kUndefinedType) {}
    explicit Module(const std::string &type);
    virtual ~Module();
    Module &operator=(const Module &) = delete;

    const std::string &type() const { return type_; }
    /// The names from the root of the tree to this module, joined by dots; empty for the root itself.
    std::string path() const;

    /// Forward pre hooks, Forward, forward post hooks; global ones before the module's own. A module with backward
    /// hooks lets its inputs and outputs pass through a node of the graph each: the backward pre hooks run once all
    /// gradients of the outputs are known, the backward post hooks once all gradients of the inputs are, both once a
    /// call.
    TensorList operator()(const TensorList &inputs);
    virtual TensorList Forward(const TensorList &inputs) = 0;

    // ---- Hooks: see docs/hooks.md -----------------------------------------------------------------------------------

    /// `hook(module, inputs)`; a list that it returns replaces the inputs.
    template <typename F>
    std::shared_ptr<HookHandle> RegisterForwardPreHook(F &&hook, const HookOptions &options = {}) {
        return hooks_->forward_pre.Add(internal::MakeModulePreHook(std::forward<F>(hook)), options);
    }
    /// `hook(module, inputs, outputs)`; a list that it returns replaces the outputs. With `always_call` it runs, with
    /// no outputs, even if Forward threw.
    template <typename F>
    std::shared_ptr<HookHandle> RegisterForwardPostHook(F &&hook, const HookOptions &options = {}) {
        return hooks_->forward_post.Add(internal::MakeModulePostHook(std::forward<F>(hook)), options);
    }
    /// `hook(module, grad_outputs)`; a list that it returns replaces them.
    template <typename F>
    std::shared_ptr<HookHandle> RegisterBackwardPreHook(F &&hook, const HookOptions &options = {}) {
        return hooks_->backward_pre.Add(internal::MakeModulePreHook(std::forward<F>(hook)), options);
    }
    /// `hook(module, grad_inputs, grad_outputs)`; a list that it returns replaces grad_inputs.
    template <typename F>
    std::shared_ptr<HookHandle> RegisterBackwardPostHook(F &&hook, const HookOptions &options = {}) {
        return hooks_->backward_post.Add(internal::MakeModulePostHook(std::forward<F>(hook)), options);
    }
    /// `hook(module)` runs once in each backward pass that accumulates into a parameter of the tree below this module,
    /// as soon as all of them that the pass comes to have their gradients. An inner module's runs before an outer's.
    std::shared_ptr<HookHandle> RegisterPostAccumulateGradHook(ModuleHook hook, const HookOptions &options = {});

    /// `hook(module, prefix)` runs before StateDict, of this module or of one around it, collects what is this
    /// module's; `hook(module, state, prefix)` once it has, and what is below it: it may add, change and drop entries.
    std::shared_ptr<HookHandle> RegisterStateDictPreHook(StateDictPreHook hook, const HookOptions &options = {});
    std::shared_ptr<HookHandle> RegisterStateDictPostHook(StateDictPostHook hook, const HookOptions &options = {});
    /// `hook(module, state, prefix)` runs before LoadStateDict looks at anything, parents first, and may edit the whole
    /// of `state`, a copy; `hook(module, report, prefix)` runs when all values are loaded, children first: what it
    /// clears from `report` is no error, what it adds is one (if strict).
    std::shared_ptr<HookHandle> RegisterLoadStateDictPreHook(LoadStateDictPreHook hook,
                                                             const HookOptions &options = {});
    std::shared_ptr<HookHandle> RegisterLoadStateDictPostHook(LoadStateDictPostHook hook,
                                                              const HookOptions &options = {});

    // ---- What it is made of -----------------------------------------------------------------------------------------

    /// All parameters of the tree, in order of registration, each once even if shared.
    TensorList Parameters() const;
    TensorList Buffers() const;
    std::vector<std::pair<std::string, TensorPtr>> NamedParameters(const std::string &prefix = "") const;
    std::vector<std::pair<std::string, TensorPtr>> NamedBuffers(const std::string &prefix = "") const;
    /// This module (under `prefix`) and all below it, each once, parents first.
    std::vector<std::pair<std::string, std::shared_ptr<Module>>> NamedModules(const std::string &prefix = "");
    std::vector<std::pair<std::string, std::shared_ptr<Module>>> NamedChildren() const;

    /// The module's own ones by name; IndexError with the names that there are.
    const TensorPtr &parameter(const std::string &name) const;
    TensorPtr *mutable_parameter(const std::string &name);
    bool has_parameter(const std::string &name) const;
    const TensorPtr &buffer(const std::string &name) const;
    /// A module below this one by its path; IndexError.
    std::shared_ptr<Module> module(const std::string &path) const;

    /// Sets the whole tree to training (dropout works) or evaluation.
    void Train(bool training = true);
    void Eval() { Train(false); }
    bool is_training() const { return training_; }

    /// Forgets the gradients of all parameters.
    void ZeroGrad(bool set_to_none = true);
    /// Whether the parameters take part in autograd.
    void RequiresGrad(bool requires_grad = true);

    /// Moves or converts parameters, gradients and buffers in place: the tensor objects stay the same, so ties and
    /// optimizers stay right. Only floating-point tensors are converted.
    void To(Device device);
    void To(DataType dtype);

    /// Calls `fn` for every module of the tree, children first.
    void Apply(const std::function<void(Module *)> &fn);

    /// The values, sharing memory with the module.
    nn::StateDict StateDict() const;
    /// Copies values in (converted to each tensor's data type). Throws a ValueError that lists everything missing,
    /// unexpected and of other dims; without `strict` only the last is an error. The values are as before if anything
    /// throws, a hook included.
    LoadReport LoadStateDict(const nn::StateDict &state, bool strict = true);

    /// A deep copy: parameters, buffers and children of its own, shared where they were shared, and the same hooks,
    /// which are given the copy. Throws NotImplementedError for a class that doesn't derive from CloneableModule.
    std::shared_ptr<Module> Clone() const;

    /// The tree, a line a module: `(fc1): Linear(in_features=784, out_features=10, bias=true)`.
    std::string ToString() const;
    friend INFINI_TRAIN_EXPORT std::ostream &operator<<(std::ostream &stream, const Module &module);
    /// `fc1 (Linear)`, for messages.
    std::string Describe() const;

protected:
    /// Copies what Clone promises; for CloneableModule.
    Module(const Module &other);
    virtual std::shared_ptr<Module> CloneImpl() const;

    /// Register a leaf as a parameter, a tensor as a buffer (saved with the module unless not `persistent`), a module
    /// as a child; give back what they were given. A null parameter takes the name alone, to be set later; a null
    /// buffer or module registers nothing. ValueError for an empty name, one with a dot, one that is taken, or a child
    /// that contains this module. Global registration hooks may put something else in the place of what is given.
    TensorPtr RegisterParameter(const std::string &name, TensorPtr parameter);
    TensorPtr RegisterBuffer(const std::string &name, TensorPtr buffer, bool persistent = true);
    template <typename M>
    std::shared_ptr<M> RegisterModule(const std::string &name, std::shared_ptr<M> module) {
        const auto is_kind = [](const std::shared_ptr<Module> &child) {
            return std::dynamic_pointer_cast<M>(child) != nullptr;
        };
        return std::dynamic_pointer_cast<M>(AddChild(name, std::move(module), is_kind));
    }
    const std::vector<std::pair<std::string, std::shared_ptr<Module>>> &children() const { return children_; }

    /// What stands between the parentheses when printed.
    virtual std::string ExtraRepr() const { return {}; }

private:
    friend class PostAccumulateWatch;

    struct Buffer {
        TensorPtr tensor;
        bool persistent;
    };
    using PathVisitor = std::function<void(Module &, const std::string &prefix)>;

    TensorList CallHooked(const TensorList &inputs);
    std::shared_ptr<Module> AddChild(const std::string &name, std::shared_ptr<Module> child,
                                     bool (*is_kind)(const std::shared_ptr<Module> &));
    void Adopt(const std::string &name, std::shared_ptr<Module> child);
    void CheckName(const char *what, const std::string &name) const;
    void Visit(const std::string &prefix, const std::function<void(const std::string &, Module &)> &fn);
    void VisitPaths(const std::string &prefix, const PathVisitor &enter, const PathVisitor &leave);
    void CollectOwn(const std::string &prefix, nn::StateDict *state) const;
    void WatchParameters();
    void TellWatchers();
    std::string Tree(const std::string &indent) const;

    const std::string type_;
    bool training_ = true;
    std::vector<std::pair<std::string, TensorPtr>> parameters_;
    std::vector<std::pair<std::string, Buffer>> buffers_;
    std::vector<std::pair<std::string, std::shared_ptr<Module>>> children_;
    Module *parent_ = nullptr;  // the latest that registered it; for messages
    std::shared_ptr<ModuleHooks> hooks_;
    std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);  // expires with the module
};

/// The base of a module that can be cloned: `class Linear : public CloneableModule<Linear>`. Derived's copy constructor
/// must not copy pointers to parameters or children; look them up by name, or override CloneImpl.
template <typename Derived>
class CloneableModule : public Module {
public:
    using Module::Module;

protected:
    CloneableModule(const CloneableModule &) = default;
    std::shared_ptr<Module> CloneImpl() const override {
        return std::shared_ptr<Derived>(new Derived(static_cast<const Derived &>(*this)));
    }
};

}  // namespace infini_train::nn
