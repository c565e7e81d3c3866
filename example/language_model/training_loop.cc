#include "example/language_model/training_loop.h"

#include <cmath>
#include <iostream>

#include <fmt/format.h>

#include "infini_train/include/common/error.h"
#include "infini_train/include/optimizer.h"

#include "example/common/clock.h"
#include "example/common/signal.h"
#include "example/common/terminal.h"

namespace infini_train::example {
namespace {

// A mean in which a value's weight halves every few steps; the first value counts fully.
void AddTo(double *mean, double value, bool is_first) {
    constexpr double kWeight = 0.1;
    *mean = is_first ? value : (1 - kWeight) * *mean + kWeight * value;
}

bool IsDue(int64_t step, int64_t every) {
    return every > 0 && step % every == 0;
}

}  // namespace

TrainingLoop::TrainingLoop(Trainer *trainer, Schedule *schedule, const Corpus *corpus, RunLog *log,
                           const LoopOptions &options, const utils::Terminal &terminal)
    : trainer_(trainer), schedule_(schedule), corpus_(corpus), log_(log), options_(options), terminal_(terminal) {}

void TrainingLoop::SetCheckpoints(CheckpointFolder *folder, const CheckpointParts &parts) {
    folder_ = folder;
    parts_ = parts;
}

void TrainingLoop::Resume(const CheckpointInfo &info) {
    step_ = saved_step_ = info.step;
    best_loss_ = info.numbers.at("best_loss");
    bad_validations_ = static_cast<int64_t>(info.numbers.at("bad_validations"));
    last_validation_ = info.numbers.at("last_validation");
    if (trainer_->scaler().enabled()) {
        trainer_->scaler().LoadStateDict(info.numbers);
    }
}

void TrainingLoop::Save() {
    if (folder_ == nullptr || saved_step_ == step_) {
        return;
    }
    CheckpointInfo info;
    info.step = step_;
    info.flags = options_.flags;
    info.numbers = {{"best_loss", best_loss_},
                    {"bad_validations", static_cast<double>(bad_validations_)},
                    {"last_validation", last_validation_}};
    if (trainer_->scaler().enabled()) {
        info.numbers.merge(trainer_->scaler().StateDict());
    }
    folder_->Save(parts_, info);
    saved_step_ = step_;
}

ProgressBar::Fields TrainingLoop::Fields() const {
    ProgressBar::Fields fields = {{"loss", FormatFixed(mean_loss_, 4)}};
    constexpr int kWide = 110;
    if (!terminal_.is_terminal || CurrentWidth(terminal_) >= kWide) {
        fields.emplace_back("lr", fmt::format("{:.2e}", record_.learning_rate));
        fields.emplace_back("norm", FormatFixed(record_.grad_norm, 2));
    }
    fields.emplace_back("", FormatCount(tokens_per_second_) + " tokens/s");
    if (options_.peak_flops > 0) {
        fields.emplace_back(
            "", FormatPercent(tokens_per_second_ * options_.flops_per_token / options_.peak_flops, 0) + " of peak");
    }
    return fields;
}

void TrainingLoop::Step(ProgressBar &bar) {
    const bool is_first = std::isnan(mean_loss_);
    const double begin = SecondsNow();
    const double learning_rate = schedule_->scheduler()->optimizer()->learning_rate();
    const Trainer::StepResult result = trainer_->Step();
    ++step_;
    record_ = {step_,
               step_ * options_.tokens_per_step,
               result.loss,
               learning_rate,
               result.grad_norm,
               static_cast<double>(options_.tokens_per_step) / (SecondsNow() - begin)};
    AddTo(&mean_loss_, result.loss, is_first);
    AddTo(&tokens_per_second_, record_.tokens_per_second, is_first);
    if (step_callback_) {
        step_callback_();
    }
    if (step_ < options_.num_steps && bar.IsDue(step_)) {
        bar.Update(step_, Fields());
    }
}

double TrainingLoop::Validate(ProgressBar &bar) {
    const double loss = trainer_->Evaluate(corpus_->validation, options_.batch_size, options_.validation_batches);
    last_validation_ = loss;
    bar.Interrupt();
    std::cout << fmt::format("step {}: validation loss {:.4f}, perplexity {:.4g}\n", step_, loss, std::exp(loss))
              << std::flush;
    return loss;
}

LoopEnd TrainingLoop::Run() {
    ProgressBar bar("Training", options_.num_steps, std::cout, terminal_);
    bar.ShowRate(false);
    const bool has_validation = corpus_->validation != nullptr;
    if (step_ == 0 && has_validation && (options_.validation_every > 0 || options_.num_steps == 0)) {
        log_->FirstValidation(Validate(bar));
    }
    bar.StartAt(step_);
    const auto out_of_patience = [&] { return options_.patience > 0 && bad_validations_ >= options_.patience; };
    LoopEnd end = out_of_patience() ? LoopEnd::kPatience : LoopEnd::kDone;
    while (step_ < options_.num_steps && end == LoopEnd::kDone) {
        Step(bar);
        const bool is_last = step_ == options_.num_steps;
        if (has_validation && (is_last || IsDue(step_, options_.validation_every))) {
            record_.validation_loss = Validate(bar);
            schedule_->AfterValidation(record_.validation_loss);
            const bool is_better = record_.validation_loss < best_loss_;
            best_loss_ = is_better ? record_.validation_loss : best_loss_;
            bad_validations_ = is_better ? 0 : bad_validations_ + 1;
            if (is_better && best_callback_) {
                best_callback_();
            }
            end = out_of_patience() ? LoopEnd::kPatience : end;
        }
        log_->Add(record_);
        if (!is_last && IsDue(step_, options_.sample_every) && sample_) {
            bar.Interrupt();
            sample_();
        }
        if (IsDue(step_, options_.checkpoint_every)) {
            Save();
        }
        if (StopRequested() && !is_last) {
            end = LoopEnd::kStopped;
        }
    }
    if (record_.step > 0) {
        bar.Finish(step_, Fields());
        Save();
    }
    return end;
}

}  // namespace infini_train::example
