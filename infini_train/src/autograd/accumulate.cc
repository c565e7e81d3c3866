#include "infini_train/include/autograd/accumulate.h"

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

}  // namespace

AccumulateGrad::AccumulateGrad(TensorPtr leaf) : Function(kType), leaf_(std::move(leaf)) {
    is_accumulator_ = true;
    outputs_.push_back({leaf_->Dims(), leaf_->Dtype(), leaf_->GetDevice()});
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
    if (grad_outputs[0] == nullptr) {
        return {};
    }
    AutogradMeta &meta = *GetMeta(*leaf_);
    {
        std::lock_guard lock(meta.mutex);
        AccumulateInto(&meta.grad, grad_outputs[0]);
    }
    if (meta.leaf_hooks != nullptr) {
        const uint64_t last_id = GraphTask::Current() != nullptr ? GraphTask::Current()->last_hook_id() : UINT64_MAX;
        meta.leaf_hooks->post_accumulate.ForEach(
            last_id, [&](const PostAccumulateHook &hook, const infini_train::internal::HookState &state) {
                WithContext([&] { return "post-accumulate hook" + QuotedName(state); }, [&] { hook(leaf_); });
            });
    }
    return {};
}

}  // namespace infini_train::autograd
