#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "infini_train/include/common/export.h"
#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/nn/modules/module.h"
#include "infini_train/include/utils/module_pattern.h"
#include "infini_train/include/utils/tensor_statistics.h"

namespace infini_train::utils {

/// What is kept of an activation.
enum class Keep {
    kClone,       ///< a copy outside of the graph
    kReference,   ///< the tensor itself, with its place in the graph; no copy, but it keeps the graph alive
    kStatistics,  ///< TensorStatistics alone
};

struct ActivationCacheOptions {
    Keep keep = Keep::kClone;
    bool inputs = false;     ///< the inputs, too
    bool gradients = false;  ///< the gradients of the outputs, and of the inputs if those are collected
};

/// Which of a call's tensors are meant.
enum class ActivationKind { kInput, kOutput, kInputGradient, kOutputGradient };

/// Collects what chosen modules are given and return, by name, while a model runs:
///
///     utils::ActivationCache cache(*model, "blocks.*.attn");
///     const auto logits = cache.Run({tokens})[0];
///     cache["blocks.0.attn"]->Print();
///
/// Names are the modules' paths below `model`. What is collected is what the module's other hooks left, and what the
/// caller of the module sees. A module may run several times in a run: calls count from 0, from the end if negative.
///
/// Only calls in the thread that began the recording are collected, so that several threads can each record the same
/// model, in a cache of their own. Reading is safe from any thread.
class INFINI_TRAIN_EXPORT ActivationCache {
public:
    /// Throws as MatchModules does. Nothing is registered until a recording begins.
    ActivationCache(nn::Module &model, const ModuleSelector &which, const ActivationCacheOptions &options = {});
    ~ActivationCache();
    ActivationCache(ActivationCache &&) noexcept;
    ActivationCache &operator=(ActivationCache &&) noexcept;

    /// Forgets what there is, and records one call of the model, whose outputs it gives back. If that throws, what was
    /// collected until then stays. Throws AutogradError while a recording is under way.
    TensorList Run(const TensorList &inputs);

    /// Record every call of the modules in this thread, for steps that are run some other way. What there is stays:
    /// further calls are added to it. Start throws AutogradError while a recording is under way.
    void Start();
    void Stop();
    void Clear();

    /// The modules that were called, in the order of the tree.
    std::vector<std::string> Names() const;
    bool Contains(const std::string &name) const;
    /// 0 for a module that wasn't called.
    size_t NumCalls(const std::string &name) const;

    /// The only output of the only call. Throws IndexError, with the names that there are, for a module that wasn't
    /// collected, or if there are several calls or outputs.
    TensorPtr operator[](const std::string &name) const;

    /// The tensors of one call, null where the module had null; without `call` those of the only one. Gradients belong
    /// to the latest backward pass and are the module's own: of a tensor that is used elsewhere, too, only what came
    /// through this call. Null where none has arrived. Throws IndexError for what wasn't collected, and AutogradError
    /// for a tensor kept by reference that was changed in place since.
    TensorList Get(const std::string &name, ActivationKind kind, std::optional<int64_t> call = std::nullopt) const;
    TensorList Outputs(const std::string &name, std::optional<int64_t> call = std::nullopt) const {
        return Get(name, ActivationKind::kOutput, call);
    }
    TensorList Inputs(const std::string &name, std::optional<int64_t> call = std::nullopt) const {
        return Get(name, ActivationKind::kInput, call);
    }
    TensorList OutputGradients(const std::string &name, std::optional<int64_t> call = std::nullopt) const {
        return Get(name, ActivationKind::kOutputGradient, call);
    }
    TensorList InputGradients(const std::string &name, std::optional<int64_t> call = std::nullopt) const {
        return Get(name, ActivationKind::kInputGradient, call);
    }
    /// The statistics of the same tensors, whatever is kept of them; nothing for null.
    std::vector<std::optional<TensorStatistics>> Statistics(const std::string &name,
                                                            ActivationKind kind = ActivationKind::kOutput,
                                                            std::optional<int64_t> call = std::nullopt) const;

    /// The bytes of the memory that the collected tensors hold on to, each block counted once.
    size_t MemoryBytes() const;

private:
    class Recording;

    void Register();

    std::shared_ptr<nn::Module> model_;
    NamedModuleList modules_;
    std::shared_ptr<Recording> recording_;  // shared with the hooks
    HookGroup hooks_;
};

}  // namespace infini_train::utils
