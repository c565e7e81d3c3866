#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "infini_train/include/core/dispatcher.h"
#include "infini_train/include/tensor.h"

#include "infini_train/src/kernels/optimizer.h"

namespace infini_train::optimizers {

/// Collects updates and hands them to their kernel at once, those of each device for themselves. Keeps its memory from
/// step to step.
template <typename Tag, typename KernelUpdate>
class FusedUpdates {
public:
    /// A new entry for one parameter, or null where there is nothing to do.
    KernelUpdate *Add(const TensorPtr &param, const TensorPtr &grad, const TensorList &state, const TensorPtr &master) {
        if (param->NumElements() == 0) {
            return nullptr;
        }
        if (!updates_.empty() && device_ != param->GetDevice()) {
            Run();
        }
        device_ = param->GetDevice();
        KernelUpdate &update = updates_.emplace_back();
        update.tensors = {.param = param->DataPtr(),
                          .grad = grad->DataPtr(),
                          .master = master != nullptr ? master->Data<float>() : nullptr,
                          .begin = begin_,
                          .num_elements = param->NumElements(),
                          .dtype = param->Dtype()};
        for (size_t i = 0; i < state.size(); ++i) {
            update.tensors.state[i] = state[i]->DataPtr();
        }
        begin_ += param->NumElements();
        return &update;
    }

    void Run() {
        if (!updates_.empty()) {
            Dispatch<Tag>(device_, std::span<const KernelUpdate>(updates_));
        }
        Clear();
    }

    void Clear() {
        updates_.clear();
        begin_ = 0;
    }

private:
    Device device_;
    int64_t begin_ = 0;
    std::vector<KernelUpdate> updates_;
};

}  // namespace infini_train::optimizers
