#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>

#include "infini_train/include/checkpoint/checkpoint.h"
#include "infini_train/include/utils/terminal.h"

#include "example/common/progress_bar.h"
#include "example/language_model/corpus.h"
#include "example/language_model/run_log.h"
#include "example/language_model/schedule.h"
#include "example/language_model/trainer.h"

namespace infini_train::example {

struct LoopOptions {
    int64_t num_steps = 0;
    int64_t tokens_per_step = 0;
    int64_t batch_size = 1;          // of a validation
    int64_t validation_every = 0;    // steps; 0: only at the end
    int64_t validation_batches = 0;  // 0: all
    int64_t patience = 0;            // validations without a better loss; 0: no early stop
    int64_t sample_every = 0;        // steps; 0: never
    int64_t checkpoint_every = 0;    // steps
    double flops_per_token = 0;
    double peak_flops = 0;                     // 0: the share of it isn't shown
    std::map<std::string, std::string> flags;  // for the checkpoints
};

/// Why a loop has ended.
enum class LoopEnd { kDone, kPatience, kStopped };

/// The course of a training: steps, and between them validations, samples and checkpoints. What a checkpoint holds is
/// the whole of it: a loop that has resumed does, bit for bit, what it would have done without a break.
class TrainingLoop {
public:
    /// All that is pointed to must outlive the loop. `checkpoints` null: none are written.
    TrainingLoop(Trainer *trainer, Schedule *schedule, const Corpus *corpus, RunLog *log, const LoopOptions &options,
                 const utils::Terminal &terminal);

    /// Writes a sample of what the model has learned.
    void OnSample(std::function<void()> sample) { sample_ = std::move(sample); }
    /// Called when a validation was the best one so far.
    void OnBest(std::function<void()> best) { best_callback_ = std::move(best); }
    /// Called after each step.
    void OnStep(std::function<void()> step) { step_callback_ = std::move(step); }
    void SetCheckpoints(CheckpointFolder *folder, const CheckpointParts &parts);

    /// Goes on from a checkpoint that has been loaded.
    void Resume(const CheckpointInfo &info);
    /// Trains to the end, or until the loss stops getting better or the user asks to stop.
    LoopEnd Run();

    int64_t step() const { return step_; }
    /// NaN if there was none.
    double last_validation() const { return last_validation_; }

private:
    void Step(ProgressBar &bar);
    double Validate(ProgressBar &bar);
    void Save();
    ProgressBar::Fields Fields() const;

    Trainer *const trainer_;
    Schedule *const schedule_;
    const Corpus *const corpus_;
    RunLog *const log_;
    const LoopOptions options_;
    const utils::Terminal terminal_;
    CheckpointFolder *folder_ = nullptr;
    CheckpointParts parts_;
    std::function<void()> sample_;
    std::function<void()> best_callback_;
    std::function<void()> step_callback_;

    int64_t step_ = 0;
    int64_t saved_step_ = -1;
    double best_loss_ = std::numeric_limits<double>::infinity();
    int64_t bad_validations_ = 0;
    double last_validation_ = std::numeric_limits<double>::quiet_NaN();
    StepRecord record_;
    double mean_loss_ = std::numeric_limits<double>::quiet_NaN();  // a running mean, for the bar
    double tokens_per_second_ = 0;                                 // likewise
};

}  // namespace infini_train::example
