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

Trainer::StepResult Trainer::Step() {
    model_->Train();
    optimizer_->ZeroGrad();
    const double share = 1.0 / static_cast<double>(options_.accumulation);
    StepResult result;
    for (int64_t i = 0; i < options_.accumulation; ++i) {
        const auto &[ids, targets] = stream_->Next();
        const TensorPtr loss = LanguageModelLoss(*model_, ids->To(options_.device), targets->To(options_.device));
        (options_.accumulation == 1 ? loss : loss->Mul(share))->Backward();
        result.loss += share * loss->Item<double>();
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
