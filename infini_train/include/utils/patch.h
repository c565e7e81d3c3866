#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/hook.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/nn/modules/module.h"
#include "infini_train/include/utils/activation_cache.h"
#include "infini_train/include/utils/module_pattern.h"

namespace infini_train::utils {

/// Some indices of one dimension of an activation. Dimensions and indices count from the end if negative; whether they
/// fit is seen when the patch runs (IndexError).
class INFINI_TRAIN_EXPORT Positions {
public:
    /// `start` up to but without `end`; by default to the end.
    static Positions Range(int64_t dim, int64_t start, std::optional<int64_t> end = std::nullopt);
    static Positions Indices(int64_t dim, std::vector<int64_t> indices);
    /// Of a dimension that holds `num_heads` blocks of equal size side by side, the blocks with these numbers.
    static Positions Heads(int64_t num_heads, std::vector<int64_t> heads, int64_t dim = -1);

    int64_t dim() const { return dim_; }
    /// The indices in a dimension of `size`. Throws IndexError, or ShapeError if `num_heads` doesn't divide it.
    std::vector<int64_t> Resolve(int64_t size) const;

private:
    explicit Positions(int64_t dim) : dim_(dim) {}

    int64_t dim_;
    int64_t start_ = 0;
    std::optional<int64_t> end_;
    std::optional<std::vector<int64_t>> picked_;  // indices or heads, rather than a range
    int64_t num_heads_ = 0;                       // 0: not heads
};

/// Which of a module's tensors is patched.
struct PatchTarget {
    bool input = false;  ///< one that it is given, rather than one that it returns
    size_t index = 0;    ///< which of them
};

/// What takes an activation's place.
class INFINI_TRAIN_EXPORT Replacement {
public:
    /// The replacement for `activation`, in the module's call number `call` of the run; null leaves it as it is.
    using Source = std::function<TensorPtr(const TensorPtr &activation, size_t call)>;

    /// A tensor that can be broadcast to the activation, or to the chosen positions of it. If it requires a gradient,
    /// it gets one.
    Replacement(TensorPtr value);
    /// The same module's activation of another run, call by call. Must have the same dims. The cache is read when a
    /// Patch is made, and has to live until then.
    Replacement(const ActivationCache &cache);
    /// `edit(activation)`, a tensor; null leaves it as it is. Gradients flow through what it does.
    template <std::invocable<const TensorPtr &> F>
    requires std::convertible_to<std::invoke_result_t<F &, const TensorPtr &>, TensorPtr> Replacement(F edit)
        : Replacement(FromEdit(std::move(edit))) {}
    /// What to put in the place of the activation of the module at `path`.
    explicit Replacement(std::function<Source(const std::string &path, const PatchTarget &target)> make)
        : make_(std::move(make)) {}

    Source For(const std::string &path, const PatchTarget &target) const { return make_(path, target); }

private:
    static Replacement FromEdit(std::function<TensorPtr(const TensorPtr &)> edit);

    std::function<Source(const std::string &, const PatchTarget &)> make_;
};

/// Zeros.
INFINI_TRAIN_EXPORT Replacement ZeroAblation();
/// The activation's own mean over `dims`; over all but the last if there are none. Gradients flow through the mean.
INFINI_TRAIN_EXPORT Replacement MeanAblation(std::vector<int64_t> dims = {});
/// The mean over `dims`, and over all calls, of what a cache holds of the same module: a constant. The cache has to
/// live until a Patch is made.
INFINI_TRAIN_EXPORT Replacement MeanAblation(const ActivationCache &cache, std::vector<int64_t> dims = {});

struct PatchOptions {
    std::vector<Positions> at = {};  ///< the elements in all of these, of different dimensions; none: everything
    PatchTarget target = {};
    std::optional<int64_t> call = {};  ///< only that call of the module in each run of the model, from 0
    std::string name = "patch";        ///< stands in error messages
};

/// Puts something else in the place of an activation, in every run until the end of the scope:
///
///     utils::Patch patch(*model, "blocks.1.attn", clean_cache, {.at = {utils::Positions::Range(1, 3, 4)}});
///     const auto logits = (*model)({corrupted_tokens})[0];
///
/// What was replaced gets no gradient from there, unless the replacement is a function of it. Several patches of one
/// module run in the order in which they were made. The calls of a module count from the last time that the thread
/// called `model` on.
///
/// A replacement that doesn't fit is a ShapeError, DtypeError or DeviceError in the run, which names the module.
class INFINI_TRAIN_EXPORT Patch {
public:
    /// Throws as MatchModules does; IndexError for modules that the cache doesn't hold; ValueError if two of the
    /// positions are of one dimension.
    Patch(nn::Module &model, const ModuleSelector &which, const Replacement &replacement, PatchOptions options = {});

    /// How many activations it has replaced so far, in all threads.
    uint64_t Applications() const;
    void Disable() { hooks_.Disable(); }
    void Enable() { hooks_.Enable(); }
    void Remove() { hooks_.Remove(); }

private:
    class State;

    std::shared_ptr<State> state_;  // shared with the hooks
    HookGroup hooks_;
};

}  // namespace infini_train::utils
