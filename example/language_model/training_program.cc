#include "example/language_model/training_program.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <unistd.h>

#include <fmt/format.h>

#include "infini_train/include/optimizer.h"
#include "infini_train/include/utils/model_summary.h"
#include "infini_train/include/utils/nan_guard.h"

#include "example/common/profile.h"
#include "example/common/signal.h"
#include "example/common/terminal.h"
#include "example/language_model/flags.h"
#include "example/language_model/machine.h"
#include "example/language_model/run_report.h"
#include "example/language_model/session.h"
#include "example/language_model/training_loop.h"

namespace infini_train::example {
namespace {

// Puts numbers where flags leave the choice to the program, so that a checkpoint holds what was chosen.
void ChooseRates(const nn::TransformerConfig &config) {
    if (FLAGS_learning_rate == 0) {
        constexpr int64_t kSmall = 128, kLarge = 768;  // widths
        FLAGS_learning_rate = !FLAGS_load.empty()      ? 3e-5
                              : config.width <= kSmall ? 3e-3
                              : config.width < kLarge  ? 1e-3
                                                       : 6e-4;
    }
    if (FLAGS_min_lr < 0) {
        FLAGS_min_lr = FLAGS_learning_rate / 10;
    }
    if (FLAGS_lr_decay_iters == 0) {
        FLAGS_lr_decay_iters = std::max<int64_t>(NumIterations(), 1);
    }
    if (FLAGS_warmup_iters < 0) {
        const bool has_none = FLAGS_lr_schedule == "plateau" || FLAGS_lr_schedule == "one_cycle";
        FLAGS_warmup_iters = has_none ? 0 : std::min<int64_t>(FLAGS_lr_decay_iters / 10, 100);
    }
}

std::shared_ptr<Optimizer> MakeOptimizer(const nn::Transformer &model) {
    return std::make_shared<optimizers::AdamW>(
        std::vector<ParamGroup>{{.params = model.DecayParameters()},
                                {.params = model.NoDecayParameters(), .weight_decay = 0.0}},
        FLAGS_learning_rate, FLAGS_beta1, FLAGS_beta2, /*eps=*/1e-8, FLAGS_weight_decay);
}

Schedule MakeSchedule(const std::shared_ptr<Optimizer> &optimizer) {
    return Schedule({.kind = FLAGS_lr_schedule,
                     .learning_rate = FLAGS_learning_rate,
                     .min_lr = FLAGS_min_lr,
                     .warmup_steps = FLAGS_warmup_iters,
                     .decay_steps = FLAGS_lr_decay_iters,
                     .step_size = FLAGS_lr_step_size,
                     .gamma = FLAGS_lr_gamma},
                    optimizer);
}

Corpus LoadCorpus(const Session &session) {
    const TokenFormat format = FLAGS_token_format == "llmc"     ? TokenFormat::kLlmC
                               : FLAGS_token_format == "uint16" ? TokenFormat::kUint16
                                                                : TokenFormat::kUint32;
    return MakeCorpus({.text = FLAGS_text,
                       .input_bins = SplitList(FLAGS_input_bin),
                       .validation_bins = SplitList(FLAGS_input_val_bin),
                       .format = format,
                       .validation_fraction = FLAGS_val_fraction,
                       .window = static_cast<size_t>(FLAGS_sequence_length),
                       .stride = static_cast<size_t>(FLAGS_stride),
                       .vocab_size = session.model->config().vocab_size},
                      session.content, session.tokenizer.get());
}

void CheckValidation(const Corpus &corpus) {
    const bool is_needed = FLAGS_patience > 0 || FLAGS_lr_schedule == "plateau";
    if (is_needed && (corpus.validation == nullptr || FLAGS_val_loss_every == 0)) {
        throw UsageError(
            fmt::format("{} goes by the validation loss: expected --val_loss_every above 0 and data for "
                        "validation (--val_fraction or --input_val_bin)",
                        FLAGS_patience > 0 ? "--patience" : "--lr_schedule=plateau"));
    }
}

LoopOptions MakeLoopOptions(const Session &session, double peak_flops) {
    LoopOptions options;
    options.num_steps = NumIterations();
    options.tokens_per_step = TokensPerStep();
    options.batch_size = FLAGS_batch_size;
    options.validation_every = FLAGS_val_loss_every;
    options.validation_batches = FLAGS_val_max_steps;
    options.patience = FLAGS_patience;
    options.sample_every = FLAGS_sample_every;
    options.checkpoint_every = FLAGS_checkpoint_every;
    options.flops_per_token = TrainingFlopsPerToken(session.model->config(), FLAGS_sequence_length);
    options.peak_flops = peak_flops;
    options.flags = TrainingFlags();
    options.flags.merge(ConfigToText(session.model->config()));
    return options;
}

void SaveModel(const Session &session) {
    SaveModelTo(FLAGS_save, *session.model);
    if (session.tokenizer != nullptr) {
        SaveTokenizer(*session.tokenizer, FLAGS_save);
    }
}

void PrintSample(const Session &session, int64_t step) {
    std::cout << fmt::format("--- step {} writes:\n", step);
    Generator generator(FLAGS_seed, kWritingStream + static_cast<uint64_t>(step));
    TextWriter(*session.model, *session.tokenizer, WriterOptions()).Write(std::cout, &generator);
    std::cout << "---\n" << std::flush;
}

// What a training is made of, in the order in which it comes to be.
class TrainingProgram {
public:
    explicit TrainingProgram(const ModelFamily &family);
    int Run();

private:
    CheckpointParts Parts();
    void PrintStart();
    bool KeepsBest() const { return !FLAGS_save.empty() && FLAGS_patience > 0 && corpus_.validation != nullptr; }
    void Prepare(TrainingLoop *loop);
    void Finish(LoopEnd end, const TrainingLoop &loop, const RunLog &log);

    const std::string name_;
    const Terminal terminal_ = DetectTerminal(STDOUT_FILENO);
    Session session_;
    const Corpus corpus_;
    const std::shared_ptr<Optimizer> optimizer_;
    Schedule schedule_;
    BatchStream stream_;
    CheckpointFolder folder_;
    MemoryForecast memory_;
    double peak_flops_ = 0;
    int64_t peak_memory_ = 0;
};

TrainingProgram::TrainingProgram(const ModelFamily &family)
    : name_(family.name),
      session_(BeginTraining(family)),
      corpus_(LoadCorpus(session_)),
      optimizer_((ChooseRates(session_.model->config()), MakeOptimizer(*session_.model))),
      schedule_(MakeSchedule(optimizer_)),
      stream_(corpus_.train, static_cast<size_t>(FLAGS_batch_size), FLAGS_shuffle, FLAGS_seed,
              static_cast<size_t>(FLAGS_num_workers), static_cast<size_t>(FLAGS_prefetch)),
      folder_(FLAGS_checkpoint_dir, static_cast<size_t>(FLAGS_keep)) {
    CheckValidation(corpus_);
    std::string().swap(session_.content);  // the ids are enough from here on
    session_.model->CheckpointActivations(FLAGS_checkpoint_activations);
    if (session_.resumed) {
        Checkpoint::Load(session_.checkpoint, Parts());
    }
}

CheckpointParts TrainingProgram::Parts() {
    return {.model = session_.model.get(),
            .optimizer = optimizer_.get(),
            .scheduler = schedule_.scheduler(),
            .loader = &stream_.loader()};
}

void TrainingProgram::PrintStart() {
    // The loader keeps the order of an epoch.
    const int64_t order = FLAGS_shuffle ? static_cast<int64_t>(sizeof(int64_t) * corpus_.train->Size()) : 0;
    memory_ = ForecastMemory(*session_.model,
                             {session_.device, FLAGS_batch_size, FLAGS_sequence_length, AccumulationSteps()}, order);
    peak_flops_ = MeasurePeakFlops(session_.device);
    PrintRun(session_, corpus_, schedule_, memory_, peak_flops_, terminal_);
    if (FLAGS_summary) {
        std::cout << utils::ModelSummary(*session_.model, {FLAGS_batch_size, FLAGS_sequence_length}, DataType::kINT64)
                         .ToString(terminal_);
    }
}

void TrainingProgram::Prepare(TrainingLoop *loop) {
    if (!FLAGS_checkpoint_dir.empty()) {
        loop->SetCheckpoints(&folder_, Parts());
        if (session_.tokenizer != nullptr) {
            SaveTokenizer(*session_.tokenizer, FLAGS_checkpoint_dir);
        }
    }
    if (session_.resumed) {
        loop->Resume(*session_.resumed);
    }
    if (session_.tokenizer != nullptr) {
        loop->OnSample([this, loop] { PrintSample(session_, loop->step()); });
    }
    if (KeepsBest()) {
        loop->OnBest([this] { SaveModel(session_); });
    }
}

void TrainingProgram::Finish(LoopEnd end, const TrainingLoop &loop, const RunLog &log) {
    if (!FLAGS_save.empty() && !KeepsBest()) {
        SaveModel(session_);
    }
    if (end != LoopEnd::kStopped && session_.tokenizer != nullptr) {
        PrintSample(session_, loop.step());
    }
    const auto parameters = static_cast<double>(session_.model->config().NumParameters());
    log.WritePlot(fmt::format("{}, {} parameters, {}", name_, FormatCount(parameters), schedule_.Describe()));
    PrintEnd(end, loop, peak_memory_, memory_, log);
}

int TrainingProgram::Run() {
    PrintStart();
    const auto nan_guard = FLAGS_nan_guard ? std::make_unique<utils::NanGuard>() : nullptr;
    const StopOnSignal stop;
    Trainer trainer(session_.model, optimizer_, &schedule_, &stream_,
                    {session_.device, AccumulationSteps(), FLAGS_grad_clip, FLAGS_cuda_graph});
    RunLog log(FLAGS_out, FLAGS_tensorboard, session_.resumed ? session_.resumed->step : 0);
    TrainingLoop loop(&trainer, &schedule_, &corpus_, &log, MakeLoopOptions(session_, peak_flops_), terminal_);
    Prepare(&loop);
    const auto profiler = FLAGS_profile.empty() ? nullptr : StartProfiler(session_.device, /*num_steps=*/10);
    if (profiler != nullptr) {
        loop.OnStep([profiler = profiler.get()] { profiler->Step(); });
    }
    const LoopEnd end = loop.Run();
    peak_memory_ = PeakProcessMemory();  // without what drawing the plot needs
    if (profiler != nullptr) {
        ShowProfile(profiler.get(), "step", FLAGS_profile, terminal_);
    }
    Finish(end, loop, log);
    return 0;
}

}  // namespace

int TrainModel(const ModelFamily &family) {
    return TrainingProgram(family).Run();
}

}  // namespace infini_train::example
