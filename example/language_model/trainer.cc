#include "example/language_model/trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/dataloader.h"
#include "infini_train/include/nn/functional.h"
#include "infini_train/include/nn/utils/clip_grad.h"
#include "infini_train/include/tensor.h"

namespace infini_train::example {

TensorPtr LanguageModelLoss(nn::Transformer &model, const TensorPtr &ids, const TensorPtr &targets) {
    const TensorPtr logits = model({ids})[0];
    return nn::function::CrossEntropy(logits->View({-1, logits->Dim(-1)}), targets->View({-1}));
}

Trainer::Trainer(std::shared_ptr<nn::Transformer> model, std::shared_ptr<Optimizer> optimizer, Schedule *schedule,
                 BatchStream *stream, const TrainerOptions &options)
    : model_(std::move(model)),
      optimizer_(std::move(optimizer)),
      schedule_(schedule),
      stream_(stream),
      options_(options),
      parameters_(model_->Parameters()) {}

void Trainer::Load() {
    const bool is_new = buffers_.ids.empty();
    for (int64_t i = 0; i < options_.accumulation; ++i) {
        const auto &[ids, targets] = stream_->Next();
        const TensorPtr on_device[] = {ids->To(options_.device), targets->To(options_.device)};
        if (is_new) {
            buffers_.ids.push_back(on_device[0]);
            buffers_.targets.push_back(on_device[1]);
        } else {
            buffers_.ids[static_cast<size_t>(i)]->Copy_(on_device[0]);
            buffers_.targets[static_cast<size_t>(i)]->Copy_(on_device[1]);
        }
    }
}

void Trainer::ForwardAndBackward() {
    optimizer_->ZeroGrad();
    buffers_.losses.clear();
    for (size_t i = 0; i < buffers_.ids.size(); ++i) {
        const TensorPtr loss = LanguageModelLoss(*model_, buffers_.ids[i], buffers_.targets[i]);
        (buffers_.ids.size() == 1 ? loss : loss->Mul(1.0 / static_cast<double>(buffers_.ids.size())))->Backward();
        buffers_.losses.push_back(loss->Detach());
    }
}

Trainer::StepResult Trainer::Step() {
    model_->Train();
    StepResult result;
    const double share = 1.0 / static_cast<double>(options_.accumulation);
    if (options_.device_graph) {
        Load();
        if (graph_ == nullptr && warm_up_-- <= 0) {
            graph_ = std::make_unique<DeviceGraph>(options_.device);
            graph_->Capture([this] { ForwardAndBackward(); });
        }
        graph_ != nullptr ? graph_->Replay() : ForwardAndBackward();
        for (const TensorPtr &loss : buffers_.losses) {
            result.loss += share * loss->Item<double>();
        }
    } else {
        optimizer_->ZeroGrad();
        for (int64_t i = 0; i < options_.accumulation; ++i) {
            const auto &[ids, targets] = stream_->Next();
            const TensorPtr loss = LanguageModelLoss(*model_, ids->To(options_.device), targets->To(options_.device));
            (options_.accumulation == 1 ? loss : loss->Mul(share))->Backward();
            result.loss += share * loss->Item<double>();
        }
    }
    result.grad_norm = nn::utils::ClipGradNorm(
        parameters_, options_.grad_clip > 0 ? options_.grad_clip : std::numeric_limits<double>::infinity());
    if (!std::isfinite(result.loss) || !std::isfinite(result.grad_norm)) {
        throw ValueError(
            fmt::format("the loss is {} and the gradients' norm {}; try a smaller --learning_rate or a "
                        "longer warm-up, or --nan_guard to see where it begins",
                        result.loss, result.grad_norm));
    }
    optimizer_->Step();
    schedule_->AfterStep();
    return result;
}

double Trainer::Evaluate(const std::shared_ptr<const Dataset> &dataset, int64_t batch_size, int64_t max_batches) {
    const autograd::NoGradGuard no_grad;
    const bool was_training = model_->is_training();
    model_->Eval();
    DataLoader loader(dataset, static_cast<size_t>(batch_size));
    double sum = 0;
    int64_t sequences = 0;
    int64_t batches = 0;
    for (const auto &[ids, targets] : loader) {
        const TensorPtr loss = LanguageModelLoss(*model_, ids->To(options_.device), targets->To(options_.device));
        sum += loss->Item<double>() * static_cast<double>(ids->Dim(0));
        sequences += ids->Dim(0);
        if (++batches == max_batches) {
            break;
        }
    }
    model_->Train(was_training);
    return sum / static_cast<double>(std::max<int64_t>(sequences, 1));
}

}  // namespace infini_train::example
