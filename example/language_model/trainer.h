#pragma once

#include <cstdint>
#include <memory>

#include "infini_train/include/common/tensor_fwd.h"
#include "infini_train/include/core/device_graph.h"
#include "infini_train/include/dataset.h"
#include "infini_train/include/device.h"
#include "infini_train/include/nn/modules/transformer/transformer.h"
#include "infini_train/include/optimizer.h"

#include "example/language_model/batch_stream.h"
#include "example/language_model/schedule.h"

namespace infini_train::example {

/// The mean cross-entropy of predicting `targets` (B, T) after each of `ids` (B, T).
TensorPtr LanguageModelLoss(nn::Transformer &model, const TensorPtr &ids, const TensorPtr &targets);

struct TrainerOptions {
    Device device;
    int64_t accumulation = 1;   // batches of one step
    double grad_clip = 1;       // 0: none
    bool device_graph = false;  // on a GPU: forward and backward as a DeviceGraph, from the third step on
};

/// One step of a training and one validation; what is between them is TrainingLoop's.
class Trainer {
public:
    Trainer(std::shared_ptr<nn::Transformer> model, std::shared_ptr<Optimizer> optimizer, Schedule *schedule,
            BatchStream *stream, const TrainerOptions &options);

    struct StepResult {
        double loss = 0;       // before the update
        double grad_norm = 0;  // before clipping
    };
    /// Throws ValueError if loss or gradients aren't finite; then nothing has been updated.
    StepResult Step();

    /// The mean loss over the first `max_batches` (0: all) batches of a dataset. Leaves everything that training goes
    /// on from as it was.
    double Evaluate(const std::shared_ptr<const Dataset> &dataset, int64_t batch_size, int64_t max_batches);

private:
    // The inputs of a step's batches, on the device, and what came of them: fixed, for a graph to refer to.
    struct Buffers {
        TensorList ids, targets, losses;
    };

    void Load();
    void ForwardAndBackward();

    const std::shared_ptr<nn::Transformer> model_;
    const std::shared_ptr<Optimizer> optimizer_;
    Schedule *const schedule_;
    BatchStream *const stream_;
    const TrainerOptions options_;
    const TensorList parameters_;
    Buffers buffers_;
    std::unique_ptr<DeviceGraph> graph_;
    int warm_up_ = 2;  // steps before the capture, which make what is made once
};

}  // namespace infini_train::example
