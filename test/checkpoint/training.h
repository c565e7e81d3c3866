#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "infini_train/include/checkpoint/checkpoint.h"
#include "infini_train/include/dataloader.h"
#include "infini_train/include/lr_scheduler.h"
#include "infini_train/include/nn/functional.h"
#include "infini_train/include/nn/modules/activations.h"
#include "infini_train/include/nn/modules/container.h"
#include "infini_train/include/nn/modules/dropout.h"
#include "infini_train/include/nn/modules/linear.h"
#include "infini_train/include/nn/utils/clip_grad.h"
#include "infini_train/include/optimizer.h"
#include "infini_train/include/tensor.h"

namespace infini_train::test {

/// A small training with everything in it that has a state: dropout, momentum, a schedule, shuffled data.
class Training {
public:
    explicit Training(size_t workers, int64_t hidden = 16) : generator_(17) {
        // Equal for all, whatever was drawn before: a checkpoint replaces it anyway.
        ManualSeed(3);
        model_ = std::make_shared<nn::Sequential>(std::vector<std::shared_ptr<nn::Module>>{
            std::make_shared<nn::Linear>(8, hidden), std::make_shared<nn::Relu>(), std::make_shared<nn::Dropout>(0.3),
            std::make_shared<nn::Linear>(hidden, 4)});
        optimizer_ = std::make_shared<optimizers::AdamW>(model_->Parameters(), 0.01);
        scheduler_ = std::make_shared<lr_schedulers::WarmupCosineLR>(optimizer_, 5, 40, 1e-4);
        const auto x = Tensor::Randn({50, 8}, DataType::kFLOAT32, {}, &generator_);
        const auto y = Tensor::RandInt(0, 4, {50}, DataType::kINT64, {}, &generator_);
        loader_ = std::make_unique<DataLoader>(std::make_shared<TensorDataset>(x, y), 4, true, 11, false, workers);
    }

    /// Trains up to step `last` and gives the losses.
    std::vector<double> TrainTo(int64_t last) {
        std::vector<double> losses;
        while (step_ < last) {
            for (const auto &[x, y] : *loader_) {
                optimizer_->ZeroGrad();
                const TensorPtr loss = nn::function::CrossEntropy((*model_)({x})[0], y);
                loss->Backward();
                nn::utils::ClipGradNorm(model_->Parameters(), 1.0);
                optimizer_->Step();
                scheduler_->Step();
                losses.push_back(loss->Item<double>());
                if (++step_ == last) {
                    break;
                }
            }
        }
        return losses;
    }

    CheckpointParts parts() {
        return {.model = model_.get(),
                .optimizer = optimizer_.get(),
                .scheduler = scheduler_.get(),
                .loader = loader_.get()};
    }
    CheckpointInfo info() const { return {.step = step_, .flags = {{"lr", "0.01"}}, .numbers = {{"best", 1.0 / 3}}}; }
    void Resume(const std::string &path) { step_ = Checkpoint::Load(path, parts()).step; }

    /// All that a later step depends on.
    std::vector<std::vector<double>> State() const {
        std::vector<std::vector<double>> values;
        for (const auto &state :
             {model_->StateDict(), optimizer_->StateDict(), scheduler_->StateDict(), loader_->StateDict()}) {
            for (const auto &[name, tensor] : state) {
                values.push_back(tensor->ToVector<double>());
            }
        }
        const Generator::State random = DefaultGenerator().GetState();
        values.push_back(
            {static_cast<double>(random.seed), static_cast<double>(random.stream), static_cast<double>(random.offset)});
        return values;
    }

    nn::Module &model() { return *model_; }
    const std::shared_ptr<Optimizer> &optimizer() const { return optimizer_; }

private:
    Generator generator_;
    std::shared_ptr<nn::Module> model_;
    std::shared_ptr<Optimizer> optimizer_;
    std::shared_ptr<LRScheduler> scheduler_;
    std::unique_ptr<DataLoader> loader_;
    int64_t step_ = 0;
};

inline std::string ReadFile(const std::filesystem::path &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

inline void WriteFile(const std::filesystem::path &path, const std::string &bytes) {
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace infini_train::test
