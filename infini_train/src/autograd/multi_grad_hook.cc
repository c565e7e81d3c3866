#include "infini_train/include/autograd/multi_grad_hook.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "infini_train/include/autograd/accumulate.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/function_hooks.h"
#include "infini_train/src/autograd/graph_task.h"
#include "infini_train/src/autograd/hook_runner.h"
#include "infini_train/src/autograd/meta.h"
#include "infini_train/src/common/format.h"

namespace infini_train::autograd {
namespace {

using infini_train::internal::HookState;

// Where a tensor's gradient arrives, held weakly: the function that made it, or whatever accumulator a leaf has when
// the pass comes.
class Place {
public:
    explicit Place(const TensorPtr &tensor) {
        const AutogradMeta *meta = GetMeta(*tensor);
        if (meta == nullptr || !tensor->requires_grad()) {
            return;
        }
        function_ = meta->edge.function;
        application_ = meta->edge.application;
        if (meta->edge.function == nullptr) {
            leaf_ = tensor;
        }
    }

    bool IsReachedBy(const GraphTask &task) const {
        if (const auto leaf = leaf_.lock()) {
            const auto accumulator = FindAccumulator(*leaf);
            return accumulator != nullptr && task.Reaches(*accumulator);
        }
        const auto function = function_.lock();
        return function != nullptr && FunctionAccess::Application(*function) == application_ && task.Reaches(*function);
    }

private:
    std::weak_ptr<Tensor> leaf_;
    std::weak_ptr<Function> function_;
    uint32_t application_ = 0;
};

// One registration. The hooks on the tensors hold it.
class MultiGrad {
public:
    MultiGrad(const TensorList &tensors, MultiGradMode mode) : mode_(mode), places_(tensors.begin(), tensors.end()) {}

    std::shared_ptr<HookHandle> Add(MultiGradHook hook, const HookOptions &options) {
        return hook_.Add(std::move(hook), options);
    }
    void AddSlot(std::shared_ptr<HookHandle> slot) {
        std::lock_guard lock(mutex_);
        slots_.push_back(std::move(slot));
    }
    template <typename Do>
    void ForSlots(Do &&what) {
        std::vector<std::shared_ptr<HookHandle>> slots;
        {
            std::lock_guard lock(mutex_);
            slots = slots_;
        }
        for (const auto &slot : slots) {
            what(*slot);
        }
    }

    // The hook on tensor `i`.
    void OnGradient(size_t i, const TensorPtr &grad) {
        GraphTask &task = *GraphTask::Current();
        auto &gathered = task.KeptFor<Gathered>(key_);
        if (gathered.fired) {
            return;
        }
        if (gathered.grads.empty()) {
            gathered.grads.resize(places_.size());
            for (const Place &place : places_) {
                gathered.waiting.push_back(mode_ == MultiGradMode::kAll && place.IsReachedBy(task));
            }
        }
        gathered.grads[i] = grad;
        gathered.waiting[i] = false;
        const auto waiting = std::find(gathered.waiting.begin(), gathered.waiting.end(), true);
        if (waiting != gathered.waiting.end() || (mode_ == MultiGradMode::kAny && grad == nullptr)) {
            return;
        }
        gathered.fired = true;
        Fire(std::exchange(gathered.grads, {}), task.last_hook_id());
    }

private:
    // What has come in one pass.
    struct Gathered {
        TensorList grads;
        std::vector<bool> waiting;
        bool fired = false;
    };

    void Fire(const TensorList &grads, uint64_t last_id) {
        std::vector<uint32_t> versions;
        for (const auto &grad : grads) {
            versions.push_back(grad != nullptr ? grad->Version() : 0);
        }
        hook_.ForEach(last_id, [&](const MultiGradHook &hook, const HookState &state) {
            WithContext([&] { return "multi-gradient hook" + QuotedName(state); }, [&] { hook(grads); });
            for (size_t i = 0; i < grads.size(); ++i) {
                if (grads[i] != nullptr && grads[i]->Version() != versions[i]) {
                    Throw<AutogradError>(
                        "multi-gradient hook{}: it changed gradient {} of shape {} in place, which the pass goes on "
                        "using; Clone it first",
                        QuotedName(state), i, FormatDims(grads[i]->Dims()));
                }
            }
        });
        if (hook_.empty()) {
            ForSlots([](HookHandle &slot) { slot.Remove(); });
        }
    }

    const uint64_t key_ = GraphTask::NewKey();
    const MultiGradMode mode_;
    const std::vector<Place> places_;
    HookList<MultiGradHook> hook_;  // the one that the user gave
    std::mutex mutex_;              // guards slots_
    std::vector<std::shared_ptr<HookHandle>> slots_;
};

class MultiGradHandle : public HookHandle {
public:
    MultiGradHandle(std::weak_ptr<MultiGrad> multi_grad, std::shared_ptr<HookHandle> hook)
        : multi_grad_(std::move(multi_grad)), hook_(std::move(hook)) {}

    void Remove() override {
        hook_->Remove();
        ForSlots([](HookHandle &slot) { slot.Remove(); });
    }
    // Without its slots a disabled hook neither holds gradients nor takes a part of a pass for the whole.
    void Disable() override {
        hook_->Disable();
        ForSlots([](HookHandle &slot) { slot.Disable(); });
    }
    void Enable() override {
        ForSlots([](HookHandle &slot) { slot.Enable(); });
        hook_->Enable();
    }
    bool IsActive() const override { return hook_->IsActive(); }
    std::string Name() const override { return hook_->Name(); }
    uint64_t Calls() const override { return hook_->Calls(); }

private:
    template <typename Do>
    void ForSlots(Do &&what) {
        if (const auto multi_grad = multi_grad_.lock()) {
            multi_grad->ForSlots(what);
        }
    }

    const std::weak_ptr<MultiGrad> multi_grad_;
    const std::shared_ptr<HookHandle> hook_;
};

}  // namespace

std::shared_ptr<HookHandle> RegisterMultiGradHook(const TensorList &tensors, MultiGradHook hook, MultiGradMode mode,
                                                  const HookOptions &options) {
    constexpr const char *kName = "RegisterMultiGradHook";
    if (hook == nullptr) {
        Throw<ValueError>("{}: expected a callable, got an empty function", kName);
    }
    const auto null = std::find(tensors.begin(), tensors.end(), nullptr);
    if (null != tensors.end()) {
        Throw<ValueError>("{}: tensor {} is null", kName, null - tensors.begin());
    }
    if (std::none_of(tensors.begin(), tensors.end(), [](const TensorPtr &tensor) { return tensor->requires_grad(); })) {
        Throw<AutogradError>("{}: expected a tensor that requires a gradient, got {} that don't", kName,
                             tensors.size());
    }
    const auto multi_grad = std::make_shared<MultiGrad>(tensors, mode);
    auto handle = multi_grad->Add(std::move(hook), options);
    const HookOptions slot_options{.name = options.name, .prepend = options.prepend, .enabled = options.enabled};
    for (size_t i = 0; i < tensors.size(); ++i) {
        if (tensors[i]->requires_grad()) {
            multi_grad->AddSlot(tensors[i]->RegisterHook(
                [multi_grad, i](const TensorPtr &grad) { multi_grad->OnGradient(i, grad); }, slot_options));
        }
    }
    return std::make_shared<MultiGradHandle>(multi_grad, std::move(handle));
}

}  // namespace infini_train::autograd
