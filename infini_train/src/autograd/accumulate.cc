#include "infini_train/include/autograd/accumulate.h"

#include <algorithm>
#include <vector>

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/autograd/graph_task.h"
#include "infini_train/src/autograd/hook_runner.h"
#include "infini_train/src/autograd/meta.h"
#include "infini_train/src/common/annotate.h"
#include "infini_train/src/common/format.h"
#include "infini_train/src/tensor/shape.h"

namespace infini_train::autograd {
namespace {

// The gradient for the leaf to keep: the tensor itself if nobody else can see it, a copy otherwise.
TensorPtr Kept(const TensorPtr &grad) {
    if (grad->requires_grad()) {
        return grad->Clone();  // stays differentiable
    }
    const bool unshared = grad.use_count() == 1 && grad->storage().use_count() == 1;
    return unshared && grad->IsContiguous() ? grad : CastCopy(*grad, grad->Dtype());
}

void TellWatchers(const HookList<LeafWatcher> &watchers, GraphTask &task, bool accumulated) {
    std::vector<AfterLeaf> after;
    watchers.ForEach(UINT64_MAX, [&](const LeafWatcher &watcher, const infini_train::internal::HookState &) {
        watcher(task, accumulated, &after);
    });
    std::stable_sort(after.begin(), after.end(),
                     [](const AfterLeaf &a, const AfterLeaf &b) { return a.order < b.order; });
    for (const auto &next : after) {
        next.call();
    }
}

}  // namespace

AccumulateGrad::AccumulateGrad(TensorPtr leaf) : Function(kType), leaf_(std::move(leaf)) {
    is_accumulator_ = true;
    ctx_.set_materialize_grads(false);
    outputs_.push_back({leaf_->layout(), leaf_->Dtype(), leaf_->GetDevice()});
}

TensorList AccumulateGrad::Forward(const TensorList & /*inputs*/) {
    throw AutogradError("AccumulateGrad: it is made by the graph and has no forward");
}

void AccumulateInto(TensorPtr *sum, const TensorPtr &grad) {
    if (*sum == nullptr) {
        *sum = Kept(grad);
    } else if (GradMode::IsEnabled() || (*sum)->requires_grad()) {
        *sum = (*sum)->Add(grad);
    } else {
        (*sum)->Add_(grad);
    }
}

TensorList AccumulateGrad::Backward(const TensorList &grad_outputs) {
    AutogradMeta &meta = *GetMeta(*leaf_);
    GraphTask *task = GraphTask::Current();
    const bool accumulated = grad_outputs[0] != nullptr;
    if (accumulated) {
        std::lock_guard lock(meta.mutex);
        AccumulateInto(&meta.grad, grad_outputs[0]);
    }
    if (meta.leaf_hooks == nullptr) {
        return {};
    }
    if (accumulated) {
        const uint64_t last_id = task != nullptr ? task->last_hook_id() : UINT64_MAX;
        meta.leaf_hooks->post_accumulate.ForEach(
            last_id, [&](const PostAccumulateHook &hook, const infini_train::internal::HookState &state) {
                WithContext([&] { return "post-accumulate hook" + QuotedName(state); }, [&] { hook(leaf_); });
            });
    }
    if (const auto *watchers = meta.leaf_hooks->watchers.Find(); watchers != nullptr && task != nullptr) {
        TellWatchers(*watchers, *task, accumulated);
    }
    return {};
}

}  // namespace infini_train::autograd
