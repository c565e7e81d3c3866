#include "example/mnist/trainer.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <numeric>

#include <fmt/format.h>

#include "infini_train/include/autograd/grad_mode.h"
#include "infini_train/include/common/error.h"
#include "infini_train/include/dataloader.h"
#include "infini_train/include/nn/functional.h"
#include "infini_train/include/tensor.h"

#include "example/common/progress_bar.h"
#include "example/common/signal.h"

namespace infini_train::example {
namespace {

double CountCorrect(const TensorPtr &logits, const TensorPtr &labels) {
    const autograd::NoGradGuard no_grad;
    return logits->Argmax(1)->Equals(labels)->Sum()->Item<double>();
}

// The sums of an epoch so far.
struct Running {
    int64_t samples = 0;
    double loss = 0;
    double correct = 0;

    ProgressBar::Fields Fields() const {
        const auto count = static_cast<double>(samples);
        return {{"loss", FormatFixed(loss / count, 4)}, {"accuracy", FormatPercent(correct / count)}};
    }
};

}  // namespace

Trainer::Trainer(std::shared_ptr<nn::Module> model, std::shared_ptr<Optimizer> optimizer,
                 std::shared_ptr<LRScheduler> scheduler, std::shared_ptr<const MnistDataset> train,
                 std::shared_ptr<const MnistDataset> test, TrainOptions options, const Terminal &terminal)
    : model_(std::move(model)),
      optimizer_(std::move(optimizer)),
      scheduler_(std::move(scheduler)),
      train_(std::move(train)),
      test_(std::move(test)),
      options_(std::move(options)),
      terminal_(terminal) {
    if (options_.watch.Any()) {
        watch_ = std::make_unique<LayerWatch>(*model_, *optimizer_, options_.watch);
    }
}

Trainer::~Trainer() = default;

EpochResult Trainer::RunEpoch(int64_t epoch) {
    model_->Train();
    DataLoader loader(train_, static_cast<size_t>(options_.batch_size), /*shuffle=*/true, options_.seed);
    loader.SetEpoch(static_cast<uint64_t>(epoch - 1));
    ProgressBar bar(fmt::format("Epoch {}/{}", epoch, options_.num_epochs), static_cast<int64_t>(train_->Size()),
                    std::cout, terminal_);
    Running running;
    int64_t batch = 0;
    for (const auto &[cpu_images, cpu_labels] : loader) {
        const TensorPtr images = cpu_images->To(options_.device);
        const TensorPtr labels = cpu_labels->To(options_.device);
        if (watch_ != nullptr) {
            watch_->BeginBatch();
        }
        optimizer_->ZeroGrad();
        const TensorPtr logits = (*model_)({images})[0];
        const TensorPtr loss = nn::function::CrossEntropy(logits, labels);
        loss->Backward();
        optimizer_->Step();
        if (scheduler_ != nullptr) {
            scheduler_->Step();
        }
        const double loss_value = loss->Item<double>();
        if (!std::isfinite(loss_value)) {
            throw ValueError(fmt::format("the loss of batch {} of epoch {} is {}; try a smaller --lr", batch + 1, epoch,
                                         loss_value));
        }
        running.samples += images->Dim(0);
        running.loss += loss_value * static_cast<double>(images->Dim(0));
        const double correct = CountCorrect(logits, labels);
        running.correct += correct;
        if (watch_ != nullptr) {
            watch_->AddScalar("loss/training", loss_value);
            watch_->AddScalar("accuracy/training", correct / static_cast<double>(images->Dim(0)));
            watch_->AddScalar("learning rate", optimizer_->learning_rate());
        }
        ++batch;
        if (on_batch_) {
            on_batch_();
        }
        if (running.samples < static_cast<int64_t>(train_->Size()) && bar.IsDue(running.samples)) {
            bar.Update(running.samples, running.Fields());
        }
        if (StopRequested()) {
            break;
        }
    }
    bar.Finish(running.samples, running.Fields());

    const auto count = static_cast<double>(running.samples);
    EpochResult result{epoch, running.loss / count, running.correct / count};
    result.seconds = bar.SecondsElapsed();
    result.samples_per_second = bar.Rate(running.samples);
    if (options_.watch.table) {
        std::cout << watch_->Summary(terminal_);
    }
    const auto &truth = test_->split().labels;
    const std::vector<int64_t> answers = Predict(&result.test_loss);
    const auto right = std::transform_reduce(answers.begin(), answers.end(), truth.begin(), int64_t{0}, std::plus<>(),
                                             [](int64_t answer, uint8_t label) { return answer == label ? 1 : 0; });
    result.test_accuracy = static_cast<double>(right) / static_cast<double>(truth.size());
    if (watch_ != nullptr) {
        watch_->AddScalar("loss/test", result.test_loss);
        watch_->AddScalar("accuracy/test", result.test_accuracy);
    }
    std::cout << fmt::format("    test: loss {:.4f}, accuracy {:.2f} %\n", result.test_loss, 100 * result.test_accuracy)
              << std::flush;
    return result;
}

void Trainer::Finish() {
    if (watch_ != nullptr) {
        watch_->Finish();
    }
}

std::vector<int64_t> Trainer::Predict(double *mean_loss) {
    const autograd::NoGradGuard no_grad;
    model_->Eval();
    DataLoader loader(test_, 500);
    std::vector<int64_t> answers;
    double loss = 0;
    for (const auto &[cpu_images, cpu_labels] : loader) {
        const TensorPtr images = cpu_images->To(options_.device);
        const TensorPtr labels = cpu_labels->To(options_.device);
        const TensorPtr logits = (*model_)({images})[0];
        loss += nn::function::CrossEntropy(logits, labels)->Item<double>() * static_cast<double>(images->Dim(0));
        const auto batch = logits->Argmax(1)->ToVector<int64_t>();
        answers.insert(answers.end(), batch.begin(), batch.end());
    }
    if (mean_loss != nullptr) {
        *mean_loss = loss / static_cast<double>(test_->Size());
    }
    return answers;
}

}  // namespace infini_train::example
