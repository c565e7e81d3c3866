#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "infini_train/include/device.h"
#include "infini_train/include/lr_scheduler.h"
#include "infini_train/include/nn/modules/module.h"
#include "infini_train/include/optimizer.h"

#include "example/common/confusion_matrix.h"
#include "example/common/terminal.h"
#include "example/mnist/layer_watch.h"
#include "example/mnist/mnist_dataset.h"

namespace infini_train::example {

struct TrainOptions {
    Device device;
    int64_t batch_size = 64;
    int64_t num_epochs = 5;
    uint64_t seed = 42;
    WatchOptions watch = {};
};

/// One epoch, or what there was of it when the run was stopped. Accuracies are fractions.
struct EpochResult {
    int64_t epoch = 0;
    double train_loss = 0;
    double train_accuracy = 0;
    double test_loss = 0;
    double test_accuracy = 0;
    double seconds = 0;
    double samples_per_second = 0;
};

/// Trains a network on a data set and shows how it goes.
class Trainer {
public:
    /// `scheduler` takes a step after each batch; null leaves the learning rate as it is.
    Trainer(std::shared_ptr<nn::Module> model, std::shared_ptr<Optimizer> optimizer,
            std::shared_ptr<LRScheduler> scheduler, std::shared_ptr<const MnistDataset> train,
            std::shared_ptr<const MnistDataset> test, TrainOptions options, const Terminal &terminal);
    ~Trainer();

    /// Runs `callback` after each batch of training.
    void OnBatch(std::function<void()> callback) { on_batch_ = std::move(callback); }

    /// Trains epoch number `epoch` (from 1) and evaluates. Ends early when the user asks to stop.
    EpochResult RunEpoch(int64_t epoch);

    /// Writes what the watch has left to write.
    void Finish();

    /// The class that the network gives for each test image.
    std::vector<int64_t> Predict(double *mean_loss = nullptr);

private:
    const std::shared_ptr<nn::Module> model_;
    const std::shared_ptr<Optimizer> optimizer_;
    const std::shared_ptr<LRScheduler> scheduler_;
    const std::shared_ptr<const MnistDataset> train_;
    const std::shared_ptr<const MnistDataset> test_;
    const TrainOptions options_;
    const Terminal terminal_;
    std::unique_ptr<LayerWatch> watch_;
    std::function<void()> on_batch_;
};

}  // namespace infini_train::example
