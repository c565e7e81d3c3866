#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/hook.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/datatype.h"

namespace infini_train {

class Optimizer;

/// Makes an optimizer for the parameters it is given, as Create of the classes below returns it.
using OptimizerCreator = std::function<std::shared_ptr<Optimizer>(const TensorList &params)>;

/// Runs before or after a step.
using OptimizerHook = std::function<void(Optimizer *)>;

/// The hooks around the steps of one optimizer, or of all of them. Throws ValueError for an empty function.
class INFINI_TRAIN_EXPORT OptimizerHooks {
public:
    /// A hook that throws stops the step before anything has changed.
    std::shared_ptr<HookHandle> RegisterStepPreHook(OptimizerHook hook, const HookOptions &options = {});
    /// Runs once the parameters are updated; with `always_call` also when the step or a hook before it threw.
    std::shared_ptr<HookHandle> RegisterStepPostHook(OptimizerHook hook, const HookOptions &options = {});

private:
    friend class Optimizer;
    HookList<OptimizerHook> pre_;
    HookList<OptimizerHook> post_;
};

/// The hooks around every optimizer's steps: first before the step, last after it.
INFINI_TRAIN_EXPORT OptimizerHooks &GlobalOptimizerHooks();

/// Parameters that share a learning rate and a weight decay; without a value the optimizer's own holds.
///
///     optimizers::AdamW optimizer({{.params = matrices}, {.params = biases, .weight_decay = 0.0}}, 3e-4);
struct ParamGroup {
    TensorList params = {};
    std::optional<double> lr = {};
    std::optional<double> weight_decay = {};
};

/// Changes parameters by their gradients. Those that have no gradient are left alone, with all that is kept of them.
///
///     optimizers::SGD optimizer(model->Parameters(), 0.1);
///     for (const auto &[x, y] : loader) {
///         optimizer.ZeroGrad();
///         loss_fn({(*model)({x})[0], y})[0]->Backward();
///         optimizer.Step();
///     }
///
/// A parameter may change its data type or device at any time (Module::To): what is kept of it follows at the next
/// step.
class INFINI_TRAIN_EXPORT Optimizer {
public:
    /// Throws ValueError for an empty list, a null or repeated parameter or a rate that is negative or not a number,
    /// DtypeError for a parameter that isn't floating-point, AutogradError for one that isn't a leaf.
    explicit Optimizer(const TensorList &params, double lr = 0.0);
    virtual ~Optimizer();
    Optimizer(const Optimizer &) = delete;
    Optimizer &operator=(const Optimizer &) = delete;

    /// The class's name.
    const std::string &type() const { return type_; }
    /// All parameters, group after group.
    const TensorList &params() const { return params_; }

    /// Forgets all gradients, or fills them with zeros.
    virtual void ZeroGrad(bool set_to_none = true);

    /// Runs the global pre hooks, this optimizer's, the update, this optimizer's post hooks and the global ones, all of
    /// it without recording. What a hook throws carries its name. Hooks that are registered meanwhile wait for the next
    /// step. Throws before anything has changed: ShapeError for a parameter that has other dims than when its state
    /// was made; DtypeError, DeviceError or ShapeError for a gradient unlike its parameter.
    void Step();

    /// Groups have both values filled in.
    const std::vector<ParamGroup> &groups() const { return groups_; }
    /// Throws what the constructor does.
    void AddParamGroup(const ParamGroup &group);
    /// Throws IndexError for a group that isn't there.
    double learning_rate(size_t group = 0) const;
    /// Of all groups, or one of them. Throws ValueError for a rate that is negative or not a number.
    void set_learning_rate(double lr);
    void set_learning_rate(double lr, size_t group);

    /// Whether bfloat16 and float16 parameters are trained in float32: the optimizer keeps a float32 master of each,
    /// updates that and rounds it to the parameter, so that steps too small for 16 bits add up. On in the optimizers
    /// below, off in others. An element of the parameter that isn't its master rounded was changed by someone else: its
    /// value is then what goes on. Costs four bytes an element. Switched off, the masters are forgotten.
    bool master_weights() const { return master_weights_; }
    void set_master_weights(bool on);

    std::shared_ptr<HookHandle> RegisterStepPreHook(OptimizerHook hook, const HookOptions &options = {});
    std::shared_ptr<HookHandle> RegisterStepPostHook(OptimizerHook hook, const HookOptions &options = {});
    /// Removes a hook of anything, a module's or a tensor's, once `steps` steps that begin from now on have ended: a
    /// hook for one step with all its micro-batches. Throws ValueError for a null hook or no steps.
    void RemoveAfterSteps(std::shared_ptr<HookHandle> hook, uint64_t steps = 1);

    /// All that training goes on from, besides the parameters: `group.0.lr`, `group.0.weight_decay`, the optimizer's
    /// other numbers as `beta1` (float64 without dims), and for each parameter that has been updated `0.step` (int64)
    /// and its tensors as `0.exp_avg`, with `0.master_param` for one that has a master. Those share memory with the
    /// optimizer: clone what has to outlive its next step.
    std::map<std::string, TensorPtr> StateDict() const;
    /// Goes on from another optimizer's state, bit for bit; takes copies. Throws ValueError, before anything has
    /// changed, where names, dims or numbers don't fit. A master that is missing begins as its parameter; one of a
    /// parameter that has none here is left out.
    void LoadStateDict(const std::map<std::string, TensorPtr> &state);

protected:
    /// What an optimizer's own number may be: min <= value < max, or <= max if that is `included`.
    struct Range {
        double min = 0;
        double max = 0;
        bool included = false;
    };

    /// One parameter's part in a step.
    struct Update {
        TensorPtr param;          ///< contiguous; the parameter, or a copy that EndUpdates writes back
        TensorPtr grad;           ///< contiguous
        const TensorList *state;  ///< one tensor a name, of the parameter's dims, at first 0
        TensorPtr master;         ///< contiguous, float32; null where there is none, see master_weights
        const ParamGroup *group;
        int64_t step;  ///< how many there have been for this parameter, with this one
        size_t index;  ///< in params()
    };

    /// `state_names` are the tensors that are kept of each parameter: in float64 for a float64 parameter, in float32
    /// for any other (16 bits would lose most of what is added to a long average).
    Optimizer(std::string type, const std::vector<ParamGroup> &groups, double lr, double weight_decay,
              std::vector<std::string> state_names);

    /// The update itself, which a subclass writes, as a loop over BeginUpdates() that ends with EndUpdates().
    virtual void StepImpl() = 0;
    /// What is to be done: one entry for each parameter with a gradient. Valid until the next call.
    std::span<const Update> BeginUpdates();
    /// Counts the step, and that the parameters have changed.
    void EndUpdates();

    /// Declares a number of the subclass that belongs to the state. Throws ValueError if it is out of `range`.
    void AddOption(const char *name, double *value, Range range);

private:
    friend class LRSchedulerBase;

    struct ParamState {
        size_t group = 0;
        int64_t step = 0;
        TensorList tensors;
        TensorPtr master;
    };
    struct Option {
        std::string name;
        double *value;
        Range range;
    };
    struct LoadedState;

    void CheckGroup(const ParamGroup &group) const;
    void CheckRate(const char *name, double value) const;
    void CheckGrad(size_t index, const TensorPtr &grad) const;
    DataType StateDtype(size_t index) const;
    bool HasMaster(size_t index) const;
    void PrepareState(size_t index);
    void RunHook(const OptimizerHook &hook, const internal::HookState &state, const char *point);
    LoadedState CheckState(const std::map<std::string, TensorPtr> &state) const;

    const std::string type_;
    double lr_ = 0;
    double weight_decay_ = 0;
    std::vector<std::string> state_names_;
    std::vector<Option> options_;
    std::vector<ParamGroup> groups_;
    std::vector<double> initial_rates_;  // of the first groups, before a scheduler changed them
    TensorList params_;
    std::vector<ParamState> states_;
    bool master_weights_ = false;
    std::vector<Update> updates_;
    OptimizerHooks hooks_;
};

/// The optimizers of PyTorch, step by step the same up to rounding; 16-bit parameters as the same float32 ones, rounded
/// (Optimizer::master_weights).
namespace optimizers {

/// Stochastic gradient descent: param -= lr * g, with g the gradient plus weight_decay * param or, with momentum, its
/// running sum v = momentum * v + (1 - dampening) * g (at the first step v = g); Nesterov's form takes
/// g + momentum * v.
class INFINI_TRAIN_EXPORT SGD : public Optimizer {
public:
    /// Throws ValueError for negative numbers, and for Nesterov's form without momentum or with dampening.
    SGD(const TensorList &params, double lr, double momentum = 0.0, double dampening = 0.0, double weight_decay = 0.0,
        bool nesterov = false);
    SGD(const std::vector<ParamGroup> &groups, double lr, double momentum = 0.0, double dampening = 0.0,
        double weight_decay = 0.0, bool nesterov = false);
    ~SGD() override;

    static OptimizerCreator Create(double lr, double momentum = 0.0, double dampening = 0.0, double weight_decay = 0.0,
                                   bool nesterov = false);

protected:
    void StepImpl() override;

private:
    struct Work;

    double momentum_;
    double dampening_;
    double nesterov_;  // 0 or 1
    std::unique_ptr<Work> work_;
};

/// Adam (Kingma and Ba, 2015): steps by the running average of the gradient over the root of that of its square. Weight
/// decay adds to the gradient.
class INFINI_TRAIN_EXPORT Adam : public Optimizer {
public:
    /// Throws ValueError unless lr, eps and weight_decay are >= 0 and both betas in [0, 1).
    explicit Adam(const TensorList &params, double lr = 1e-3, double beta1 = 0.9, double beta2 = 0.999,
                  double eps = 1e-8, double weight_decay = 0.0);
    explicit Adam(const std::vector<ParamGroup> &groups, double lr = 1e-3, double beta1 = 0.9, double beta2 = 0.999,
                  double eps = 1e-8, double weight_decay = 0.0);
    ~Adam() override;

    static OptimizerCreator Create(double lr = 1e-3, double beta1 = 0.9, double beta2 = 0.999, double eps = 1e-8,
                                   double weight_decay = 0.0);

protected:
    Adam(std::string type, bool decoupled, const std::vector<ParamGroup> &groups, double lr, double beta1, double beta2,
         double eps, double weight_decay);
    void StepImpl() override;

private:
    struct Work;

    const bool decoupled_;
    double beta1_;
    double beta2_;
    double eps_;
    std::unique_ptr<Work> work_;
};

/// Adam with decoupled weight decay (Loshchilov and Hutter, 2019): each step first shrinks the parameter by
/// lr * weight_decay of itself.
class INFINI_TRAIN_EXPORT AdamW : public Adam {
public:
    explicit AdamW(const TensorList &params, double lr = 1e-3, double beta1 = 0.9, double beta2 = 0.999,
                   double eps = 1e-8, double weight_decay = 1e-2);
    explicit AdamW(const std::vector<ParamGroup> &groups, double lr = 1e-3, double beta1 = 0.9, double beta2 = 0.999,
                   double eps = 1e-8, double weight_decay = 1e-2);

    static OptimizerCreator Create(double lr = 1e-3, double beta1 = 0.9, double beta2 = 0.999, double eps = 1e-8,
                                   double weight_decay = 1e-2);
};

}  // namespace optimizers
}  // namespace infini_train
